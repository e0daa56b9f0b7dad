//! usher's annotations and labels of the Node, as the agent last received them.
//!
//! Two files, because agents that read no labels have the first one as well.

use std::path::Path;

use usher_core::settings::mode::NodeValues;

use super::{Error, NODE_ANNOTATIONS, NODE_LABELS, load};

/// Reads the last values; None where no agent has saved any.
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
