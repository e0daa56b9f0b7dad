//! Keeps a socket bound at its path: binds it again after its file was removed or replaced.
//!
//! A watch on the directory ([`Directory`]) detects that. If two agents replace each other's socket, they do so with
//! growing delays ([`Backoff`]).

use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use usher_sys::files::directory::Directory;

use crate::{backoff::Backoff, error_chain::chain};

/// The polling interval if inotify instances are exhausted, so that no watch is possible.
const POLL: Duration = Duration::from_secs(30);

/// A listener and its file.
#[derive(Debug)]
struct Bound<L> {
    listener: L,
    file: SocketFile,
}

#[derive(Debug)]
struct SocketFile {
    path: PathBuf,
    /// None if the file was removed immediately.
    id: Option<Id>,
    /// None if the directory cannot be watched.
    directory: Option<Directory>,
}

/// Device and inode, which cannot be reused while the socket is bound.
type Id = (u64, u64);

/// Listens at a path until the future is dropped. The call binds the first listener, so that clients can connect at
/// once. `serve` runs for each listener until its file is removed. `listening` receives whether a listener exists. The
/// log line of a failure ends with the `consequence`. Needs a runtime.
pub fn keep<L, E, S>(
    path: PathBuf,
    consequence: &'static str,
    bind: fn(&Path) -> Result<L, E>,
    serve: impl Fn(L) -> S,
    listening: impl Fn(bool),
) -> impl Future<Output = ()>
where
    E: std::error::Error,
    S: Future<Output = ()>,
{
    let mut backoff = Backoff::default();
    backoff.tried(Instant::now());
    let mut bound = Bound::new(&path, bind);
    async move {
        let mut is_failing = false;
        loop {
            listening(bound.is_ok());
            match bound {
                Ok(Bound { listener, file }) => {
                    if std::mem::take(&mut is_failing) {
                        tracing::info!(path = %path.display(), "listening again");
                    }
                    tokio::select! {
                        () = serve(listener) => {}
                        () = file.lost() => {
                            tracing::warn!(path = %path.display(), "another process removed a socket; binding it again");
                        }
                    }
                    listening(false);
                }
                Err(error) => {
                    if !std::mem::replace(&mut is_failing, true) {
                        tracing::warn!(error = %chain(&error), "could not listen, retrying; {consequence}");
                    }
                }
            }
            tokio::time::sleep_until(backoff.due(Instant::now()).into()).await;
            backoff.tried(Instant::now());
            bound = Bound::new(&path, bind);
        }
    }
}

impl<L> Bound<L> {
    fn new<E>(path: &Path, bind: fn(&Path) -> Result<L, E>) -> Result<Self, E> {
        // Before the bind, so that no change is missed.
        let directory = Directory::open(path.parent().unwrap_or(Path::new("/")));
        let listener = bind(path)?;
        if let Err(error) = &directory {
            tracing::warn!(error = %chain(error), "could not watch a socket's directory; polling it");
        }
        Ok(Self {
            listener,
            file: SocketFile {
                path: path.to_owned(),
                id: id(path),
                directory: directory.ok(),
            },
        })
    }
}

impl SocketFile {
    /// Waits until the file is removed or replaced.
    async fn lost(mut self) {
        while self.id.is_some() && self.id == id(&self.path) {
            let Some(directory) = &mut self.directory else {
                tokio::time::sleep(POLL).await;
                continue;
            };
            if let Err(error) = directory.changed().await {
                tracing::warn!(error = %chain(&error), "lost the watch on a socket's directory; polling it");
                self.directory = None;
            }
        }
    }
}

fn id(path: &Path) -> Option<Id> {
    let found = fs::symlink_metadata(path).ok()?;
    Some((found.dev(), found.ino()))
}
