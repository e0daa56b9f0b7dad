//! Pods and containers without settings, for tests to extend.

use std::collections::BTreeMap;

use super::{Container, DEFAULT_GRACE, Pod};
use crate::{
    base::id::PodUid,
    pod::{requests::Requests, restart_policy::RestartPolicy},
};

pub fn container(name: &str, image: &str) -> Container {
    Container {
        name: name.to_owned(),
        image: image.to_owned(),
        image_id: None,
        words: Vec::new(),
        env: BTreeMap::new(),
        restart_policy: None,
        restart_rules: Vec::new(),
        user: None,
        own_user: None,
        own_group: None,
        requests: Requests::default(),
        probes: Vec::new(),
        restarts_on_resize: false,
        status: None,
    }
}

pub fn pod(containers: Vec<Container>) -> Pod {
    Pod {
        uid: PodUid::parse("0d7e0c5c-6f0c-4b5a-9c1d-8a6d8a0f2b11").expect("the UID is valid"),
        namespace: "shop".to_owned(),
        name: "report".to_owned(),
        annotations: BTreeMap::new(),
        deleting: false,
        deletion_expires: None,
        grace: DEFAULT_GRACE,
        host_network: false,
        runtime_class: None,
        terminal: None,
        restart_policy: RestartPolicy::Never,
        containers,
        native_sidecars: Vec::new(),
        init_restarters: Vec::new(),
        init_containers: Vec::new(),
        requests: Requests::default(),
    }
}
