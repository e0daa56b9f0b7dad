//! Reads the kubelet's response to `GET /pods`, a `v1.PodList`, while it arrives.
//!
//! The response may be hundreds of megabytes: a node lists finished pods until the API server deletes them, and one pod may have
//! 1.5 MiB. So it is read pod by pod, and what is kept of it is bounded: [`LARGEST_POD`] bytes of JSON at a time, of each pod the
//! fields that are read, and of all pods together a [`Limits`] of bytes and of pods.
//!
//! Only the fields that matter are parsed, so that an unusual value elsewhere cannot break anything. A pod that cannot be used is
//! skipped and reported. Nothing in here may panic, whatever the bytes are.

mod budget;
mod container;
mod pod;
mod probe;
mod reduced;
mod resources;
mod splitter;

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use serde::de::IgnoredAny;

use self::{
    budget::{Budget, Rank, size_of_pod},
    pod::{Outline, RawPod},
    splitter::{Element, Splitter, Text},
};
use crate::{
    base::id::{InvalidId, PodUid},
    metric::value::PodSkipReason,
    pod::spec::Pod,
    recipe::Reads,
};

pub use self::splitter::LARGEST_POD;

/// Skipped pods that are named; the others are only counted.
const MOST_NAMED: usize = 32;

#[derive(Debug, thiserror::Error)]
pub enum NotAPodList {
    #[error("not a list of pods: unexpected character at byte {offset}")]
    Syntax { offset: u64 },
    #[error("not a list of pods: invalid value before byte {offset}")]
    Value {
        offset: u64,
        source: serde_json::Error,
    },
    #[error("not a list of pods: a value before byte {offset} is longer than {LARGEST_POD} bytes")]
    TooLong { offset: u64 },
    #[error("not a list of pods: the response ends after {bytes} bytes, before the list does")]
    Incomplete { bytes: u64 },
}

#[derive(Debug, thiserror::Error)]
pub enum SkippedPod {
    #[error("pod number {index} of the kubelet's list is invalid")]
    Shape {
        /// The position in the list, from 0.
        index: usize,
        source: serde_json::Error,
    },
    #[error("pod {namespace}/{name} of the kubelet's list has an invalid UID")]
    Uid {
        namespace: String,
        name: String,
        source: InvalidId,
    },
    #[error(
        "pod {name} has {bytes} bytes of JSON, more than the {LARGEST_POD} bytes that usher reads of a pod"
    )]
    TooLong {
        /// `namespace/name`, or the position in the list.
        name: String,
        bytes: usize,
    },
    #[error("pod {name} has {bytes} bytes in fields that usher keeps, more than {limit} bytes")]
    TooLarge {
        name: String,
        bytes: usize,
        limit: usize,
    },
    #[error(
        "pod {name} ({bytes} bytes) exceeds what usher keeps of all pods: {} bytes, {} pods",
        .limits.bytes, .limits.pods
    )]
    OverBudget {
        name: String,
        bytes: usize,
        limits: Limits,
    },
}

impl SkippedPod {
    pub const fn reason(&self) -> PodSkipReason {
        match self {
            Self::Shape { .. } | Self::Uid { .. } => PodSkipReason::Invalid,
            Self::TooLong { .. } | Self::TooLarge { .. } => PodSkipReason::TooLarge,
            Self::OverBudget { .. } => PodSkipReason::OverBudget,
        }
    }
}

/// The limits of what is kept of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    pub bytes: usize,
    pub pods: usize,
    pub bytes_of_pod: usize,
    /// The bytes of all [`PodList::documents`].
    pub documents: usize,
}

impl Default for Limits {
    /// Room for a thousand pods of ordinary size, which are 1 to 4 kB.
    fn default() -> Self {
        Self {
            bytes: 8 * 1024 * 1024,
            pods: 4096,
            bytes_of_pod: 64 * 1024,
            documents: 16 * 1024 * 1024,
        }
    }
}

/// What is kept of a list.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    /// The annotations, variables and arguments that are kept.
    pub reads: Reads,
    /// Of the finished pods, only these are kept; None for all of them, as long as there is room.
    pub finished: Option<BTreeSet<PodUid>>,
    /// The pods of which the whole JSON is kept.
    pub documents: BTreeSet<PodUid>,
    pub limits: Limits,
}

impl From<&Reads> for Selection {
    fn from(reads: &Reads) -> Self {
        Self {
            reads: reads.clone(),
            ..Self::default()
        }
    }
}

/// What was kept of a list.
#[derive(Debug, Default)]
pub struct PodList {
    pub pods: Vec<Pod>,
    pub addresses: BTreeMap<PodUid, Vec<IpAddr>>,
    /// The JSON of the selected pods.
    pub documents: BTreeMap<PodUid, String>,
    /// The first of the skipped pods.
    pub skipped: Vec<SkippedPod>,
    pub skipped_counts: BTreeMap<PodSkipReason, usize>,
    /// Finished pods that were not selected, or for which there was no room.
    pub omitted_finished: usize,
}

impl PodList {
    fn skip(&mut self, skipped: SkippedPod) {
        *self.skipped_counts.entry(skipped.reason()).or_default() += 1;
        if self.skipped.len() < MOST_NAMED {
            self.skipped.push(skipped);
        }
    }
}

/// A list while it is read.
#[derive(Debug)]
pub struct Reader {
    selection: Selection,
    splitter: Splitter,
    kept: Kept,
}

/// What is kept so far.
#[derive(Debug)]
struct Kept {
    pods: Budget<(Pod, Vec<IpAddr>)>,
    documents: Budget<String>,
    /// Without the pods, which follow at the end.
    list: PodList,
}

impl Reader {
    pub fn new(selection: Selection) -> Self {
        let limits = selection.limits;
        Self {
            selection,
            splitter: Splitter::default(),
            kept: Kept {
                pods: Budget::new(limits.bytes, limits.pods),
                documents: Budget::new(limits.documents, limits.pods),
                list: PodList::default(),
            },
        }
    }

    /// Reads the next bytes of the response.
    pub fn read(&mut self, mut bytes: &[u8]) -> Result<(), NotAPodList> {
        while let Some(element) = self.splitter.next(&mut bytes)? {
            if let Err(invalid) = self.kept.add(&element, &self.selection) {
                return Err(self.splitter.invalid(invalid));
            }
        }
        Ok(())
    }

    /// The list, at the end of the response.
    pub fn finish(self) -> Result<PodList, NotAPodList> {
        self.splitter.finish()?;
        let Kept {
            pods,
            documents,
            mut list,
        } = self.kept;
        for (rank, (pod, addresses)) in pods.into_entries() {
            list.pods.push(pod);
            list.addresses.insert(rank.uid, addresses);
        }
        list.documents = documents
            .into_entries()
            .map(|(rank, document)| (rank.uid, document))
            .collect();
        Ok(list)
    }
}

impl Kept {
    /// Keeps what is selected of an element.
    fn add(
        &mut self,
        element: &Element<'_>,
        selection: &Selection,
    ) -> Result<(), serde_json::Error> {
        let Element { index, bytes, text } = *element;
        let json = match text {
            Text::Whole(json) => json,
            Text::Beginning(beginning) => {
                let number = || format!("number {index} of the kubelet's list");
                let name = pod::name_in(beginning).unwrap_or_else(number);
                self.list.skip(SkippedPod::TooLong { name, bytes });
                return Ok(());
            }
        };
        // Most pods of a long list have finished: they are parsed once.
        match serde_json::from_str::<Outline<'_>>(json) {
            Ok(outline) => {
                let finished = outline.finished();
                let selected = selection.finished.as_ref();
                let omits = |uid| selected.is_some_and(|selected| !selected.contains(uid));
                if finished.as_ref().is_some_and(omits) {
                    self.list.omitted_finished += 1;
                    return Ok(());
                }
            }
            Err(_shape) => drop(serde_json::from_str::<IgnoredAny>(json)?),
        }
        if let Err(skipped) = self.keep(index, json, selection) {
            self.list.skip(skipped);
        }
        Ok(())
    }

    fn keep(&mut self, index: usize, json: &str, selection: &Selection) -> Result<(), SkippedPod> {
        let raw: RawPod<'_> =
            serde_json::from_str(json).map_err(|source| SkippedPod::Shape { index, source })?;
        let addresses = raw.addresses();
        let pod = raw.into_pod(index, &selection.reads)?;
        let finished = pod.terminal.is_some();
        let rank = |bytes| Rank {
            finished,
            bytes,
            uid: pod.uid.clone(),
        };
        if selection.documents.contains(&pod.uid) {
            // A document for which there is no room is absent.
            drop(self.documents.insert(rank(json.len()), json.to_owned()));
        }
        let limits = selection.limits;
        let size = size_of_pod(&pod);
        if size > limits.bytes_of_pod {
            return Err(SkippedPod::TooLarge {
                name: pod.display_name(),
                bytes: size,
                limit: limits.bytes_of_pod,
            });
        }
        for (rank, (pod, _addresses)) in self.pods.insert(rank(size), (pod, addresses)) {
            if rank.finished {
                self.list.omitted_finished += 1;
            } else {
                self.list.skip(SkippedPod::OverBudget {
                    name: pod.display_name(),
                    bytes: rank.bytes,
                    limits,
                });
            }
        }
        Ok(())
    }
}

pub fn parse(body: &[u8], selection: impl Into<Selection>) -> Result<PodList, NotAPodList> {
    let mut reader = Reader::new(selection.into());
    reader.read(body)?;
    reader.finish()
}

#[cfg(test)]
mod tests;
