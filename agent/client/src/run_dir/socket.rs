//! A socket stays where others look for it: one that was removed, or has another in its place, is bound again.
//!
//! The directory is watched for it ([`Directory`]). An agent that takes the sockets from another that lives is given
//! way to for longer and longer ([`Backoff`]).

use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use usher_sys::files::directory::Directory;

use crate::{backoff::Backoff, error_chain::chain};

/// How often to look where the kernel tells of no changes, for want of inotify instances.
const UNTOLD: Duration = Duration::from_secs(30);

/// A listener, and what is known of its place.
#[derive(Debug)]
struct Bound<L> {
    listener: L,
    place: Place,
}

#[derive(Debug)]
struct Place {
    path: PathBuf,
    /// None where it was gone at once.
    id: Option<Id>,
    /// None where it cannot be watched.
    directory: Option<Directory>,
}

/// Device and inode. The number is nobody else's while the socket is bound.
type Id = (u64, u64);

/// Listens at a path for as long as it is polled; whoever connects from now on is heard if `bind` succeeds. Each
/// listener is served until its socket is not there any more. `listening` is told whether there is one, and what it
/// means that there is none is said by `else_what`. In a runtime only.
pub fn keep<L, E, S>(
    path: PathBuf,
    else_what: &'static str,
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
                Ok(Bound { listener, place }) => {
                    if std::mem::take(&mut is_failing) {
                        tracing::info!(path = %path.display(), "listening again");
                    }
                    tokio::select! {
                        () = serve(listener) => {}
                        () = place.lost() => {
                            tracing::warn!(path = %path.display(), "somebody took a socket away, which is made again");
                        }
                    }
                    listening(false);
                }
                Err(error) => {
                    if !std::mem::replace(&mut is_failing, true) {
                        tracing::warn!(error = %chain(&error), "cannot listen, trying again; {else_what}");
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
        // Before it is there, so that no change is missed.
        let directory = Directory::open(path.parent().unwrap_or(Path::new("/")));
        let listener = bind(path)?;
        if let Err(error) = &directory {
            tracing::warn!(error = %chain(error), "looking after a socket without being told of changes");
        }
        Ok(Self {
            listener,
            place: Place {
                path: path.to_owned(),
                id: id(path),
                directory: directory.ok(),
            },
        })
    }
}

impl Place {
    /// Waits until the socket that was bound is not there any more.
    async fn lost(mut self) {
        while self.id.is_some() && self.id == id(&self.path) {
            let Some(directory) = &mut self.directory else {
                tokio::time::sleep(UNTOLD).await;
                continue;
            };
            if let Err(error) = directory.changed().await {
                tracing::warn!(error = %chain(&error), "looking after a socket without being told of changes");
                self.directory = None;
            }
        }
    }
}

/// What is at a path.
fn id(path: &Path) -> Option<Id> {
    let found = fs::symlink_metadata(path).ok()?;
    Some((found.dev(), found.ino()))
}
