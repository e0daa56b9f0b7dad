//! `usher check POD`: what is wrong with one pod, without its story. `usher explain` has both.

use crate::{
    global::{Exit, Global},
    pod::explain::{self, Diagnosis},
};

/// Diagnoses a pod. Exits as `usher explain` does.
pub(crate) async fn run(pod: &str, global: &Global) -> Exit {
    explain::show(pod, global, Diagnosis::from).await
}
