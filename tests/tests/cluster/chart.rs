//! The Helm chart, as an administrator uses it on a real cluster: installed, looked at, switched on, upgraded, rolled back and
//! removed without a trace.
//!
//! Each test takes the plain manifests off and has a release of its own; the manifests are applied again after it.

mod install;
mod load;
mod policy;
mod release;
mod remains;
mod schema;
mod upgrade;
