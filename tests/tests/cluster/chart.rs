//! The Helm chart, as an administrator uses it on a real cluster: installed, checked, enabled, upgraded, rolled back and
//! removed without a trace.
//!
//! Each test removes the plain manifests and installs a release of its own; afterwards the manifests are applied again.

mod deleted;
mod install;
mod load;
mod own_certificate;
mod policy;
mod preflight;
mod release;
mod remains;
mod schema;
mod upgrade;
