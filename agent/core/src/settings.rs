//! Configuration: annotations, modes, the configuration file, and the overrides of pods and Namespaces.

pub mod annotation;
pub mod bound;
pub mod config;
pub mod mode;
pub mod overrides;
pub(crate) mod strict_yaml;
