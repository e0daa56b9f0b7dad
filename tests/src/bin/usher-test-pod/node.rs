//! The surroundings of pods: the machine and the mount namespaces of a node.

pub(crate) mod machine;
pub(crate) mod mask;
pub(crate) mod mounts;
