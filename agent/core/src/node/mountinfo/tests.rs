use proptest::prelude::*;

use super::super::mountinfo::*;

const UID: &str = "0d7e0c5c-6f0c-4b5a-9c1d-8a6d8a0f2b11";

fn name(root: &str) -> Option<String> {
    let uid = PodUid::parse(UID).unwrap();
    let text = format!(
        "700 600 0:60 / / rw,relatime master:1 - overlay overlay rw\n\
         710 700 254:0 {root} /dev/termination-log rw,relatime - ext4 /dev/vda rw\n"
    );
    container_name(&text, &uid).map(str::to_owned)
}

#[test]
fn roots() {
    let found = Some("istio-proxy".to_owned());
    assert_eq!(
        name(&format!(
            "/var/lib/kubelet/pods/{UID}/containers/istio-proxy/0a1b2c3d"
        )),
        found
    );
    assert_eq!(
        name(&format!("/pods/{UID}/containers/istio-proxy/0a1b2c3d")),
        found
    );
    let other = UID.replace('0', "1");
    for root in [
        format!("/pods/{other}/containers/istio-proxy/0a1b2c3d"),
        format!("/pods/{UID}/volumes/istio-proxy/0a1b2c3d"),
        format!("/pods/{UID}/containers/istio-proxy/data"),
        format!("/pods/{UID}/containers/istio-proxy/0a1b2c3"),
        format!("/pods/{UID}/containers/istio-proxy/0a1b2c3d4"),
        format!("/pods/{UID}/containers/istio-proxy/0a1b2c3g"),
        format!("/pods/{UID}/containers//0a1b2c3d"),
        "/".to_owned(),
    ] {
        assert_eq!(name(&root), None, "{root}");
    }
}

#[test]
fn short_lines_are_no_answer() {
    let uid = PodUid::parse(UID).unwrap();
    for text in ["", "\n", "1 2 3", "1 2 3 /a/b"] {
        assert_eq!(container_name(text, &uid), None);
    }
}

#[test]
fn mount_of_the_root() {
    for numbers in ["22 1", "700 600"] {
        let line = format!("{numbers} 254:0 /var/a\\040b / rw,relatime");
        assert_eq!(root(&line), Some(["254:0", "/var/a\\040b"]));
    }
    for line in ["", "22 1 254:0 /", "22 1 254:0 / /dev rw"] {
        assert_eq!(root(line), None, "{line}");
    }
}

#[test]
fn mount_points() {
    let text = "1 0 0:1 / /run/k8s.io/abc/rootfs rw - overlay overlay rw\n";
    assert!(has_mount_point_with(text, "abc"));
    assert!(!has_mount_point_with(text, "overlay"));
}

/// The mount points of a container, with their ids.
fn points(text: &str) -> Vec<String> {
    let found = executable(text).into_iter();
    let found = found.map(|(id, point)| format!("{id} {}", point.display()));
    found.collect()
}

/// The mounts that runc creates for a container with an emptyDir and a Secret, copied from a real
/// one.
const CONTAINER: &str = "\
700 600 0:74 / / rw,relatime master:48 - overlay overlay rw,lowerdir=/l,upperdir=/u,workdir=/w
701 700 0:80 / /proc rw,nosuid,nodev,noexec,relatime - proc proc rw
702 700 0:81 / /dev rw,nosuid - tmpfs tmpfs rw,size=65536k,mode=755
703 702 0:82 / /dev/pts rw,nosuid,noexec,relatime - devpts devpts rw,gid=5,mode=620,ptmxmode=666
704 702 0:66 / /dev/mqueue rw,nosuid,nodev,noexec,relatime - mqueue mqueue rw
705 700 0:72 / /sys ro,nosuid,nodev,noexec,relatime - sysfs sysfs ro
706 705 0:83 / /sys/fs/cgroup ro,nosuid,nodev,noexec,relatime - tmpfs tmpfs rw,mode=755
707 700 254:0 /kubelet/pods/u/etc-hosts /etc/hosts rw,relatime - ext4 /dev/vda rw
708 702 254:0 /kubelet/pods/u/containers/app/0a1b2c3d /dev/termination-log rw,relatime - ext4 /dev/vda rw
709 702 0:63 / /dev/shm rw,nosuid,nodev,noexec,relatime - tmpfs shm rw,size=65536k
710 700 254:0 /kubelet/pods/u/volumes/bin /opt/bin rw,relatime - ext4 /dev/vda rw
711 700 0:62 / /var/run/secrets/kubernetes.io/serviceaccount ro,relatime - tmpfs tmpfs rw,size=24581696k
712 701 0:80 /bus /proc/bus ro,nosuid,nodev,noexec,relatime - proc proc rw
713 701 0:84 / /proc/acpi ro,relatime - tmpfs tmpfs ro
714 702 0:82 /0 /dev/console rw,nosuid,noexec,relatime - devpts devpts rw,gid=5,mode=620
";

#[test]
fn directories_with_programs_of_a_container() {
    let expected = [
        "702 /dev",
        "708 /dev/termination-log",
        "707 /etc/hosts",
        "710 /opt/bin",
        "711 /var/run/secrets/kubernetes.io/serviceaccount",
    ];
    assert_eq!(points(CONTAINER), expected);
}

#[test]
fn where_a_lookup_may_wait() {
    let line =
        |id: u64, point: &str, kind: &str| format!("{id} 1 0:1 / {point} rw - {kind} a rw\n");
    let root = line(1, "/", "overlay");
    for kind in [
        "nfs",
        "nfs4",
        "fuse",
        "fuse.sshfs",
        "fuseblk",
        "9p",
        "virtiofs",
        "ceph",
        "cifs",
        "autofs",
        "proc",
        "sysfs",
        "cgroup2",
        "devtmpfs",
        "ext5",
        "",
    ] {
        let other = line(2, "/a", kind);
        let rest = [
            line(3, "/a/b", "ext4"),
            line(4, "/ab", "xfs"),
            line(5, "/a", "tmpfs"),
        ];
        let [below, beside, over] = &rest;
        // The lines may have any order.
        for text in [
            format!("{root}{other}{below}{beside}"),
            format!("{below}{beside}{other}{root}"),
            format!("{root}{other}{below}{beside}{over}"),
            format!("{root}{over}{below}{beside}{other}"),
        ] {
            assert_eq!(points(&text), ["4 /ab"], "{kind}");
            let may_block = |path: &str| may_block(&text, Path::new(path));
            for path in ["/a", "/a/b", "/a/b/program (deleted)"] {
                assert!(may_block(path), "{kind}: {path}");
            }
            for path in ["/", "/ab/program", "/memfd:runc:/a"] {
                assert!(!may_block(path), "{kind}: {path}");
            }
        }
        let root = line(1, "/", kind);
        // A container with such a root cannot be marked.
        assert!(!may_block(&root, Path::new("/program")), "{kind}");
        assert!(points(&format!("{root}{beside}")).is_empty(), "{kind}");
    }
    for kind in LOCAL {
        assert_eq!(points(&line(2, "/a", kind)), ["2 /a"], "{kind}");
    }
}

#[test]
fn only_the_last_of_a_point_counts() {
    let line = |id: u64, options: &str| format!("{id} 1 0:1 / /a {options} - ext4 a rw\n");
    let (yes, no) = (line(2, "rw"), line(3, "rw,noexec"));
    assert_eq!(points(&format!("{no}{yes}")), ["2 /a"]);
    assert!(points(&format!("{yes}{no}")).is_empty());
    let of_the_file_system = "4 1 0:1 / /a rw - ext4 a rw,noexec\n";
    assert!(points(of_the_file_system).is_empty());
    let named_so = "4 1 0:1 / /noexec rw shared:1 - ext4 noexec rw,a=noexec\n";
    assert_eq!(points(named_so), ["4 /noexec"]);
}

#[test]
fn points_with_odd_letters() {
    let text = "4 1 0:1 / /a\\040b\\011c\\012d\\134e\\134040ä rw - ext4  rw\n";
    let expected = vec![(4, PathBuf::from("/a b\tc\nd\\e\\040ä"))];
    assert_eq!(executable(text), expected);
    for (field, expected) in [
        ("/a\\", "/a\\"),
        ("/a\\04", "/a\\04"),
        ("/a\\048", "/a\\048"),
        ("/a\\777", "/a\\777"),
        ("/\\\\040", "/\\ "),
    ] {
        assert_eq!(*unescaped(field), *expected.as_bytes(), "{field}");
    }
    assert_eq!(*unescaped("/\\377"), *b"/\xff");
}

#[test]
fn no_more_than_so_many() {
    let lines = (0..1000).map(|id| format!("{id} 1 0:1 / /{id:04} rw - ext4 a rw\n"));
    let found = executable(&lines.collect::<String>());
    assert_eq!(found.len(), EXECUTABLE);
    assert_eq!(found[255], (255, PathBuf::from("/0255")));
}

#[test]
fn whether_mounts_are_seen() {
    let text = "\
1 0 254:0 / / rw - ext4 a rw
2 1 0:1 / /run rw,relatime master:5 - tmpfs run rw
3 2 0:2 / /run/containerd/shm rw - tmpfs shm rw
4 1 0:3 / /shared rw shared:7 master:2 - ext4 a rw
5 1 0:4 / /twice rw shared:8 - ext4 a rw
6 5 0:5 / /twice rw - ext4 a rw
7 1 0:6 / /unbindable rw unbindable propagate_from:2 - ext4 a rw
8 1 0:7 / /with\\040space rw shared:9 - ext4 a rw
";
    for (path, expected) in [
        ("/", false),
        ("/runner", false),
        ("/run", true),
        ("/run/containerd/io", true),
        ("/run/containerd/shm/a", false),
        ("/shared/a", true),
        ("/twice/a", false),
        ("/unbindable", false),
        ("/with space/a", true),
    ] {
        assert_eq!(propagates(text, Path::new(path)), Some(expected), "{path}");
    }
    assert_eq!(propagates(text, Path::new("run")), None);
    assert_eq!(propagates("", Path::new("/run")), None);
}

#[test]
fn lines_that_are_none() {
    let valid = "4 1 0:1 / /a rw shared:1 - ext4 a rw";
    assert_eq!(points(valid), ["4 /a"]);
    let lines: Vec<usize> = valid.match_indices(' ').map(|(at, _space)| at).collect();
    for end in lines {
        assert!(points(&valid[..end]).is_empty(), "{}", &valid[..end]);
    }
    for bad in ["-1 1 0:1 / /a rw - ext4 a rw", "4 1 0:1 / a rw - ext4 a rw"] {
        assert!(points(bad).is_empty(), "{bad}");
    }
}

fn any_mount() -> impl Strategy<Value = String> {
    let kind = prop::sample::select(vec!["ext4", "overlay", "nfs", "proc", "tmpfs"]);
    let options = prop::sample::select(vec!["rw", "rw,noexec", "ro,relatime"]);
    let parts = (1_u64..40, "(/[ab]){0,3}", options, kind);
    parts.prop_map(|(id, point, options, kind)| {
        let point = if point.is_empty() { "/" } else { &point };
        format!("{id} 1 0:1 / {point} {options} - {kind} a rw\n")
    })
}

proptest! {
    #[test]
    fn reported_mounts_are_safe(lines in prop::collection::vec(any_mount(), 0..12)) {
        let text = lines.concat();
        let mounts: Vec<Mount<'_>> = text.lines().filter_map(Mount::read).collect();
        let mut reported = BTreeSet::new();
        for (id, point) in executable(&text) {
            let mut here = mounts.iter().filter(|mount| path(&mount.point) == point);
            let last = here.next_back().unwrap();
            prop_assert!(last.id == id && !last.noexec && point != Path::new("/"));
            let mut above = mounts.iter().filter(|mount| point.starts_with(path(&mount.point)));
            prop_assert!(above.all(|mount| LOCAL.contains(&mount.kind)));
            prop_assert!(reported.insert(point));
        }
    }

    #[test]
    fn any_text_does_not_panic(text in "[0-9 /a\\\\\\n:-]{0,200}", any: String) {
        for text in [text, any] {
            let _found = executable(&text);
            let _found = propagates(&text, Path::new("/a"));
            let _found = (root(&text), may_block(&text, Path::new("/a")));
        }
    }
}

/// A pod's file on a disk of its own, and the mounts of its node.
const RESOLVER: &str = "\
800 700 0:31 / / rw - overlay overlay rw,lowerdir=/l
801 800 8:17 /sandboxes/a\\040b/old /etc/resolv.conf rw - ext4 /dev/sdb1 rw
802 800 8:17 /sandboxes/a\\040b/resolv.conf /etc/resolv.conf rw - ext4 /dev/sdb1 rw
803 800 8:1 /var/lib/kubelet/pods/u/etc-hosts /etc/hosts rw - ext4 /dev/sda1 rw
";
const NODE: &str = "\
20 1 8:1 / / rw shared:1 - ext4 /dev/sda1 rw
21 20 8:17 / /var/lib/containerd rw - ext4 /dev/sdb1 rw
22 20 8:17 /sandboxes /mnt/sandboxes rw - ext4 /dev/sdb1 rw
";

#[test]
fn mounted_file_is_found_on_the_node() {
    let of = |point: &str| origin(RESOLVER, Path::new(point));
    let resolver = of("/etc/resolv.conf").unwrap();
    assert_eq!(resolver.device, "8:17");
    assert_eq!(
        paths_of(NODE, &resolver),
        [
            Path::new("/mnt/sandboxes/a b/resolv.conf"),
            Path::new("/var/lib/containerd/sandboxes/a b/resolv.conf")
        ]
    );
    let hosts = of("/etc/hosts").unwrap();
    assert_eq!(
        paths_of(NODE, &hosts),
        [Path::new("/var/lib/kubelet/pods/u/etc-hosts")]
    );
    assert_eq!(of("/etc/passwd"), None);
    assert_eq!(paths_of("", &hosts), [] as [&Path; 0]);
    let itself = Origin {
        device: "8:17".to_owned(),
        path: "/sandboxes".into(),
    };
    assert_eq!(paths_of(NODE, &itself)[0].as_os_str(), "/mnt/sandboxes");
}
