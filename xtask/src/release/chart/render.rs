//! Renders the chart's default objects to one file.

use std::path::Path;

use anyhow::Result;

use super::template;

/// Differences from an installation by Helm: the Namespace is one of the objects, and the image is built from this
/// tree.
const VALUES: [&str; 3] = [
    "namespace.create=true",
    "image.repository=usher.test/usher-agent",
    "image.tag=dev",
];
/// Labels of objects that Helm manages.
const OF_HELM: [&str; 2] = ["app.kubernetes.io/managed-by: ", "helm.sh/chart: "];

const HEAD: &str = "\
# usher on every Linux node of a cluster, in observe mode until a Node is annotated. Rendered from deploy/chart by `cargo xtask chart`.
#
#   kubectl apply -k deploy/manifests
#   kubectl annotate node NODE usher.dev/mode=enforce --overwrite
";

/// All objects except hooks.
pub(super) fn manifest(helm: &Path) -> Result<String> {
    let values = VALUES.iter().flat_map(|value| ["--set", value]);
    let args: Vec<&str> = ["--no-hooks"].into_iter().chain(values).collect();
    Ok(readable(&template(helm, &args)?))
}

/// Removes Helm's own lines and empty lines.
fn readable(rendered: &str) -> String {
    let of_helm = |line: &str| {
        let text = line.trim_start();
        line.starts_with("# Source: ") || OF_HELM.iter().any(|start| text.starts_with(start))
    };
    let lines = rendered.lines().map(str::trim_end);
    let lines = lines.filter(|line| !line.is_empty() && !of_helm(line));
    lines.fold(HEAD.to_owned(), |text, line| text + line + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_has_nothing_of_helm() {
        let rendered = "---\n# Source: usher/templates/a.yaml\nkind: A\nmetadata:\n  labels:\n    \
                        app.kubernetes.io/managed-by: Helm\n    helm.sh/chart: usher-1\n    a: b\n\n---\nkind: B\n";
        let text = readable(rendered);
        assert_eq!(
            text.strip_prefix(HEAD),
            Some("---\nkind: A\nmetadata:\n  labels:\n    a: b\n---\nkind: B\n")
        );
    }
}
