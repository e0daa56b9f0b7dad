//! `usher check POD`: the problems of one pod. `usher explain` adds its history.

use crate::{
    failure::Failure,
    global::{Exit, Global},
    pod::explain::{self, Diagnosis},
};

/// Diagnoses a pod. Exits as `usher explain` does.
pub(crate) async fn run(pod: &str, global: &Global) -> Result<Exit, Failure> {
    explain::show(pod, global, Diagnosis::from).await
}
