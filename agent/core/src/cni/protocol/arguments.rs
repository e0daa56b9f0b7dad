//! The pod, from the variable `CNI_ARGS` of the plugin: `K=V` pairs with `;` between them.

use serde::{Deserialize, Serialize};

use crate::base::id::{InvalidId, PodUid};

const NAMESPACE: &str = "K8S_POD_NAMESPACE";
const NAME: &str = "K8S_POD_NAME";
const UID: &str = "K8S_POD_UID";

/// Longer than any name in Kubernetes.
const LONGEST: usize = 253;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodName {
    pub namespace: String,
    pub name: String,
    /// Its UID, where the runtime passes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<PodUid>,
}

/// Why the arguments name no pod.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidArguments {
    #[error("no {key} in CNI_ARGS")]
    Missing { key: &'static str },
    #[error("{key} in CNI_ARGS is no name: {value:?}")]
    Name { key: &'static str, value: String },
    #[error("{UID} in CNI_ARGS is no UID")]
    Uid(#[source] InvalidId),
}

/// The pod that the arguments name. Other keys are ignored; of a duplicate key, the last value counts.
pub fn pod(arguments: &str) -> Result<PodName, InvalidArguments> {
    let value = |key: &'static str| {
        let pairs = arguments.rsplit(';');
        let mut values = pairs.filter_map(|pair| pair.strip_prefix(key)?.strip_prefix('='));
        values.next().filter(|value| !value.is_empty())
    };
    let name = |key: &'static str| {
        let found = value(key).ok_or(InvalidArguments::Missing { key })?;
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-.".contains(&byte);
        if found.len() <= LONGEST && found.bytes().all(fits) {
            return Ok(found.to_owned());
        }
        let value = found.chars().take(LONGEST).collect();
        Err(InvalidArguments::Name { key, value })
    };
    let uid = value(UID).map(PodUid::parse).transpose();
    Ok(PodName {
        namespace: name(NAMESPACE)?,
        name: name(NAME)?,
        uid: uid.map_err(InvalidArguments::Uid)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const UID_TEXT: &str = "0d7e0c5c-6f0c-4b5a-9c1d-8a6d8a0f2b11";

    #[test]
    fn arguments_of_runtimes() {
        let containerd = format!(
            "IgnoreUnknown=1;K8S_POD_NAMESPACE=jobs;K8S_POD_NAME=a-1.b;K8S_POD_INFRA_CONTAINER_ID=3f;K8S_POD_UID={UID_TEXT}"
        );
        let mut expected = PodName {
            namespace: "jobs".to_owned(),
            name: "a-1.b".to_owned(),
            uid: Some(PodUid::parse(UID_TEXT).unwrap()),
        };
        assert_eq!(pod(&containerd), Ok(expected.clone()));
        expected.uid = None;
        let without = "K8S_POD_NAMESPACE=jobs;K8S_POD_NAME=a-1.b";
        assert_eq!(pod(without), Ok(expected.clone()));
        let twice = ";;K8S_POD_NAME=b;a=b=c;K8S_POD_NAME=a-1.b;K8S_POD_NAMESPACE=jobs;K8S_POD_UID=";
        assert_eq!(pod(twice), Ok(expected));
    }

    #[test]
    fn arguments_that_name_no_pod() {
        let cases = [
            ("", "no K8S_POD_NAMESPACE in CNI_ARGS"),
            ("K8S_POD_NAMESPACE=a", "no K8S_POD_NAME in CNI_ARGS"),
            (
                "K8S_POD_NAMESPACE=;K8S_POD_NAME=b",
                "no K8S_POD_NAMESPACE in CNI_ARGS",
            ),
            (
                "K8S_POD_NAMESPACE=../a;K8S_POD_NAME=b",
                "K8S_POD_NAMESPACE in CNI_ARGS is no name: \"../a\"",
            ),
            (
                "K8S_POD_NAMESPACE=a;K8S_POD_NAME=b=c",
                "K8S_POD_NAME in CNI_ARGS is no name: \"b=c\"",
            ),
            (
                "K8S_POD_NAMESPACE=a;K8S_POD_NAME=b;K8S_POD_UID=c",
                "K8S_POD_UID in CNI_ARGS is no UID",
            ),
        ];
        for (arguments, expected) in cases {
            assert_eq!(pod(arguments).unwrap_err().to_string(), expected);
        }
        let long = format!("K8S_POD_NAMESPACE={};K8S_POD_NAME=b", "a".repeat(100_000));
        assert!(pod(&long).unwrap_err().to_string().len() < 400);
    }
}
