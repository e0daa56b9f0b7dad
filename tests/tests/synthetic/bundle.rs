//! The start of a container, as the node's kernel reports it, held by a fanotify group
//! of the test's own.

use std::fs::File;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::fanotify::{
    EventFFlags, Fanotify, FanotifyResponse, InitFlags, MarkFlags, MaskFlags, Response,
};
use nix::sys::signal::Signal;
use usher_tests::privilege;
use usher_tests::synthetic::clock::eventually;
use usher_tests::synthetic::wire::{End, Entry, Pace, Program, Root};
use usher_tests::synthetic::{ContainerSpec, Node, Pod, PodSpec, process};
use usher_tests::wait::slower;

/// Holds the first exec of one process, and permits all others, until dropped.
struct Gate {
    stop: std::io::PipeWriter,
    held: Receiver<i32>,
    thread: Option<JoinHandle<()>>,
}

impl Gate {
    /// Marks a path, and holds the process with the pid in the file.
    fn on(mark: MarkFlags, path: &Path, pid_file: PathBuf) -> Self {
        let flags = InitFlags::FAN_CLASS_CONTENT | InitFlags::FAN_CLOEXEC;
        let group = Fanotify::init(flags | InitFlags::FAN_NONBLOCK, EventFFlags::O_CLOEXEC);
        let group = group.unwrap();
        let mark = MarkFlags::FAN_MARK_ADD | mark;
        let anywhere = File::open("/").unwrap();
        let exec = MaskFlags::FAN_OPEN_EXEC_PERM;
        group.mark(mark, exec, &anywhere, Some(path)).unwrap();
        let (reader, stop) = std::io::pipe().unwrap();
        let (teller, held) = channel();
        let thread = std::thread::spawn(move || {
            let mut waiting = Vec::new();
            loop {
                let mut fds = [
                    PollFd::new(group.as_fd(), PollFlags::POLLIN),
                    PollFd::new(reader.as_fd(), PollFlags::POLLIN),
                ];
                match poll(&mut fds, PollTimeout::NONE) {
                    Ok(_) | Err(Errno::EINTR) => {}
                    Err(error) => panic!("{error}"),
                }
                if fds[1].any().unwrap() {
                    return;
                }
                for event in group.read_events().unwrap_or_default() {
                    let text = std::fs::read_to_string(&pid_file).unwrap_or_default();
                    if waiting.is_empty() && text == event.pid().to_string() {
                        teller.send(event.pid()).unwrap();
                        waiting.push(event);
                    } else {
                        let fd = event.fd().unwrap();
                        let response = FanotifyResponse::new(fd, Response::FAN_ALLOW);
                        group.write_response(response).unwrap();
                    }
                }
            }
        });
        Self {
            stop,
            held,
            thread: Some(thread),
        }
    }
}

impl Gate {
    /// The held process; waits for it, because the test may be faster.
    fn held(&self) -> i32 {
        let held = self.held.recv_timeout(PATIENCE);
        held.expect("the container's first exec comes to this mark")
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        std::io::Write::write_all(&mut self.stop, b"x").unwrap();
        self.thread.take().unwrap().join().unwrap();
    }
}

/// The timeout for a marked exec.
const PATIENCE: Duration = Duration::from_secs(30);

/// A pod with a first exec long after the test can have set its mark: as fast as possible,
/// the exec after `init.pid` sometimes precedes the mark.
fn late(name: &str, entry: Entry) -> PodSpec {
    let pace = Pace {
        exec: slower(Duration::from_secs(4)),
        ..Pace::CONTAINERD
    };
    PodSpec::new(name).with(ContainerSpec::app("app").entry(entry).pace(pace))
}

/// Waits until the root of a container is mounted.
fn mounted(pod: &Pod, container: &str) -> PathBuf {
    let root = pod.bundle_of(container).join("rootfs");
    eventually("the mount", || root.join("pod").exists());
    root
}

#[test]
fn runtime_shows_a_container_step_by_step() {
    if !privilege::granted() {
        return;
    }
    let node = Node::with_bundles();
    let pod = node.run(&late("steps", Entry::Root));
    let bundle = pod.bundle_of("app");
    let read = |name: &str| std::fs::read_to_string(bundle.join(name)).unwrap();
    let config: serde_json::Value = serde_json::from_str(&read("config.json")).unwrap();
    let note = |key: &str| config["annotations"][format!("io.kubernetes.cri.{key}")].clone();
    assert_eq!(note("container-type"), "container");
    assert_eq!(note("container-name"), "app");
    assert_eq!(note("sandbox-uid"), pod.uid());
    assert_eq!(note("sandbox-id"), pod.id(""));
    assert_eq!(read("init.pid"), pod.pid("app").to_string());
    let sandbox = node.bundle_dir().unwrap().join(pod.id(""));
    assert!(sandbox.join("init.pid").exists());
    // The test's namespace has no mount.
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert!(!mounts.contains(&pod.id("app")), "{mounts}");
    pod.finish("app", 3);
    assert_eq!(pod.ended("app").code(), 3);
    let bundle = node.bundle_dir().unwrap().join(pod.id("app"));
    eventually("no bundle", || !bundle.exists());
    drop(pod);
    assert!(!sandbox.exists());
}

#[test]
fn first_exec_on_the_root_is_held() {
    if !privilege::granted() {
        return;
    }
    let node = Node::with_bundles();
    for entry in [Entry::Root, Entry::Script] {
        let pod = node.create(&late("held", entry));
        let root = mounted(&pod, "app");
        let gate = Gate::on(
            MarkFlags::FAN_MARK_FILESYSTEM,
            &root,
            pod.bundle_of("app").join("init.pid"),
        );
        let init = pod.started("app");
        assert_eq!(gate.held(), init);
        assert!(!pod.has_run("app"));
        // An exec in it is another process.
        pod.exec("app", "probe", Program::App(End::OnCommand));
        pod.first_instruction("probe");
        let pid = pod.pid("probe").to_string();
        let file = pod
            .bundle_of("app")
            .join(format!("{}.pid", pod.id("probe")));
        assert_eq!(std::fs::read_to_string(file).unwrap(), pid);
        pod.finish("probe", 5);
        assert_eq!(pod.ended("probe").code(), 5);
        assert!(!pod.has_run("app"));
        assert_eq!(process::state(u32::try_from(init).unwrap()), Some('D'));
        drop(gate);
        pod.first_instruction("app");
        pod.finish("app", 4);
        assert_eq!(pod.ended("app").code(), 4);
    }
}

#[test]
fn held_on_a_mount_of_its_own() {
    if !privilege::granted() {
        return;
    }
    let node = Node::with_bundles();
    for (entry, point) in [(Entry::Volume, "volume"), (Entry::MountedOver, "pod")] {
        let pod = node.create(&late("volume", entry));
        let pid_file = pod.bundle_of("app").join("init.pid");
        eventually("init.pid", || pid_file.exists());
        let root = format!("/proc/{}/root", pod.pid("app"));
        let path = Path::new(&root).join(point);
        let gate = Gate::on(MarkFlags::FAN_MARK_MOUNT, &path, pid_file);
        let init = pod.started("app");
        assert_eq!(gate.held(), init);
        assert!(!pod.has_run("app"));
        drop(gate);
        pod.first_instruction("app");
    }
}

#[test]
fn signal_to_a_held_container() {
    if !privilege::granted() {
        return;
    }
    let node = Node::with_bundles();
    for spec in [
        late("own", Entry::Root),
        late("shared", Entry::Root).sharing_processes(),
    ] {
        for (signal, code) in [(Signal::SIGTERM, 2), (Signal::SIGKILL, 137)] {
            let pod = node.create(&spec);
            let root = mounted(&pod, "app");
            let pid_file = pod.bundle_of("app").join("init.pid");
            let gate = Gate::on(MarkFlags::FAN_MARK_FILESYSTEM, &root, pid_file);
            gate.held();
            pod.signal("app", signal);
            assert_eq!(pod.ended("app").code(), code);
            assert!(!pod.has_run("app"));
        }
    }
}

#[test]
fn root_without_overlayfs() {
    if !privilege::granted() {
        return;
    }
    let node = Node::with_bundles();
    let app = ContainerSpec::app("app").root(Root::Bind).linked();
    let pod = node.run(&PodSpec::new("odd").with(app));
    let bundle = node.bundle_dir().unwrap().join(pod.id("app"));
    assert!(bundle.is_symlink());
    pod.finish("app", 0);
    assert_eq!(pod.ended("app").code(), 0);
    eventually("no bundle", || !bundle.is_symlink());
}
