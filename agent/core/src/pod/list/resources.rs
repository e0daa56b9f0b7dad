//! Requested resources in a pod's spec.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::{
    base::quantity,
    pod::requests::{Explicit, Requests},
};

#[derive(Deserialize, Clone, Copy)]
pub(super) struct RawResources<'list> {
    #[serde(borrow)]
    requests: Option<RawRequests<'list>>,
}

/// Quantities of any form are read: a pod is not skipped for its requests.
#[derive(Deserialize, Clone, Copy)]
pub(super) struct RawRequests<'list> {
    #[serde(borrow)]
    cpu: Option<&'list RawValue>,
    #[serde(borrow)]
    memory: Option<&'list RawValue>,
}

impl RawResources<'_> {
    pub(super) fn explicit(self) -> Explicit {
        self.requests.map(RawRequests::explicit).unwrap_or_default()
    }
}

impl RawRequests<'_> {
    fn explicit(self) -> Explicit {
        let text = |raw: &RawValue| raw.get().trim_matches('"').to_owned();
        Explicit {
            cpu_millis: self.cpu.and_then(|raw| quantity::thousandths(&text(raw))),
            memory_bytes: self.memory.and_then(|raw| quantity::units(&text(raw))),
        }
    }

    pub(super) fn sum(self) -> Requests {
        self.explicit().into()
    }
}
