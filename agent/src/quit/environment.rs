//! Variables of a sidecar's environment, for the headers that they go into.
//!
//! They are read from its memory, and whose memory that is may have a read wait for as long as it likes, by
//! [userfaultfd(2)](https://man7.org/linux/man-pages/man2/userfaultfd.2.html) or a page of a FUSE file. So a thread reads
//! that nothing else waits for. It ends with the pod's process at the latest, and few of them are there for each pod.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    thread,
};

use tokio::sync::oneshot;
use usher_client::error_chain::chain;
use usher_core::{
    base::id::{Pid, PodUid},
    recipe::step::Header,
};
use usher_sys::pods::proc::ProcRoot;

/// Reads of one pod's memory at a time; a pod has one or two sidecars that want one.
const AT_ONCE: usize = 4;

/// The reads that have not come back.
#[derive(Debug, Clone, Default)]
pub(crate) struct Reads(Arc<Mutex<HashMap<PodUid, usize>>>);

/// One of them.
struct Read {
    all: Reads,
    pod: PodUid,
}

impl Reads {
    /// The headers with their values; those whose variable is not set are left out.
    ///
    /// # Errors
    /// In words, where the memory cannot be read. Where it does not answer this does not end.
    pub(super) async fn headers(
        &self,
        proc: &ProcRoot,
        pod: &PodUid,
        pid: Pid,
        wanted: &[Header],
    ) -> Result<Vec<(String, String)>, String> {
        if wanted.is_empty() {
            return Ok(Vec::new());
        }
        let read = self.begin(pod).ok_or_else(|| {
            format!("{AT_ONCE} reads of this pod's memory have not come back; something in the pod holds them up")
        })?;
        let (sender, receiver) = oneshot::channel();
        let (proc, wanted) = (proc.clone(), wanted.to_vec());
        let found = move || {
            let value = |header: Header| match proc.variable(pid, &header.env) {
                Ok(value) => value.map(|value| Ok((header.name, value))),
                Err(error) => Some(Err(chain(&error))),
            };
            // The receiver is gone when the read took too long.
            drop(sender.send(wanted.into_iter().filter_map(value).collect()));
            drop(read);
        };
        let thread = thread::Builder::new().name("environment".to_owned());
        thread
            .spawn(found)
            .map_err(|error| format!("no thread to read the environment: {error}"))?;
        // Never without an answer: the thread does not panic.
        receiver.await.unwrap_or_else(|_gone| Ok(Vec::new()))
    }

    fn begin(&self, pod: &PodUid) -> Option<Read> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = all.entry(pod.clone()).or_default();
        if *count >= AT_ONCE {
            return None;
        }
        *count += 1;
        Some(Read {
            all: self.clone(),
            pod: pod.clone(),
        })
    }
}

impl Drop for Read {
    fn drop(&mut self) {
        let mut all = self.all.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = all.get_mut(&self.pod) {
            *count -= 1;
            if *count == 0 {
                all.remove(&self.pod);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, time::Duration};

    use nix::{sys::stat::Mode, unistd::mkfifo};

    use super::*;

    /// A process whose memory does not answer: here the read waits for a writer of its `stat`.
    #[tokio::test(flavor = "current_thread")]
    async fn a_blocked_read_blocks_nothing_else() {
        let root = tempfile::tempdir().unwrap();
        let pid = Pid(7);
        fs::create_dir(root.path().join("7")).unwrap();
        let stat = root.path().join("7/stat");
        mkfifo(&stat, Mode::S_IRWXU).unwrap();
        let (reads, proc) = (Reads::default(), ProcRoot::new(root.path()));
        let pod = PodUid::parse(&"1".repeat(32)).unwrap();
        let wanted = [Header {
            name: "token".to_owned(),
            env: "TOKEN".to_owned(),
        }];
        let read = reads.headers(&proc, &pod, pid, &wanted);
        // What is to be seen is that it returns at all.
        let limit = Duration::from_millis(1);
        assert!(tokio::time::timeout(limit, read).await.is_err());
        // And its thread ends when it is answered.
        fs::write(&stat, "no stat").unwrap();
        while !reads.0.lock().unwrap().is_empty() {
            thread::yield_now();
        }
    }

    #[test]
    fn one_pod_takes_no_reads_of_another() {
        let pod = |digit: &str| PodUid::parse(&digit.repeat(32)).unwrap();
        let reads = Reads::default();
        let stuck: Vec<Option<Read>> = (0..AT_ONCE).map(|_n| reads.begin(&pod("1"))).collect();
        assert!(stuck.iter().all(Option::is_some));
        assert!(reads.begin(&pod("1")).is_none());
        assert!(reads.begin(&pod("2")).is_some());
        drop(stuck);
        assert!(reads.begin(&pod("1")).is_some());
        assert!(reads.0.lock().unwrap().is_empty());
    }
}
