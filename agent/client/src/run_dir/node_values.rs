//! usher's annotations and labels of the Node, as the agent last received them.
//!
//! The two files are separate, because agents that read no labels use the first one as well.

use std::path::Path;

use usher_core::settings::mode::NodeValues;

use super::{Error, NODE_ANNOTATIONS, NODE_LABELS, load};

/// Reads the last values; None if no agent has saved any.
pub fn load_node_values(run_dir: &Path) -> Result<Option<NodeValues>, Error> {
    let Some(annotations) = load(run_dir, NODE_ANNOTATIONS)? else {
        return Ok(None);
    };
    let labels = load(run_dir, NODE_LABELS)?.unwrap_or_default();
    Ok(Some(NodeValues {
        annotations,
        labels,
    }))
}
