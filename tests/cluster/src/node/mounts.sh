# The node's own view of the file system. Runs as root in the node's new namespaces.
# STATE: the node's directory; NODE: the node's name; CGROUP_MOUNTS: one line "PLACE TYPE OPTIONS" per hierarchy.
# Nothing here reaches the machine: the mount namespace is private until the last line makes it shared for pods.
set -eu

umount -R -l /proc
mount -t proc proc /proc
echo "$NODE" >/proc/sys/kernel/hostname

# The network namespace has a /sys of its own, and the cgroup namespace its own roots.
umount -R -l /sys
mount -t sysfs sysfs /sys
printf %s "$CGROUP_MOUNTS" | while read -r place type options; do
  mkdir -p "$place"
  mount -t "$type" -o "$options" "$type" "$place"
done

# The kubelet sets these for the whole machine; here it sets files.
mkdir -p "$STATE/sysctl"
for key in kernel/keys/root_maxbytes kernel/keys/root_maxkeys kernel/panic kernel/panic_on_oops \
  vm/overcommit_memory vm/panic_on_oom; do
  if [ -e "/proc/sys/$key" ]; then
    file=$STATE/sysctl/$(echo "$key" | tr / .)
    cat "/proc/sys/$key" >"$file"
    mount --bind "$file" "/proc/sys/$key"
  fi
done

# Sockets, network namespace files and CNI's records vanish with the node.
mount -t tmpfs -o mode=755 run /run
mkdir -p /run/lock /run/netns

# What is written here stays here: a memory-backed layer over the machine's own directories.
mkdir -p "$STATE/upper"
mount -t tmpfs -o mode=755 upper "$STATE/upper"
for place in etc opt var/lib var/log; do
  mkdir -p "$STATE/upper/$place/data" "$STATE/upper/$place/work" "/$place"
  mount -t overlay -o "lowerdir=/$place,upperdir=$STATE/upper/$place/data,workdir=$STATE/upper/$place/work" overlay "/$place"
done

# What is large or worth reading afterwards is in the state directory.
bind() {
  mkdir -p "$STATE/$1" "$2"
  mount --bind "$STATE/$1" "$2"
}
bind kubelet /var/lib/kubelet
bind containerd /var/lib/containerd
bind cni/net.d /etc/cni/net.d
bind cni/bin /opt/cni/bin
bind pod-logs /var/log/pods
bind container-logs /var/log/containers

# Mounts made by the kubelet and by pods must reach each other.
mount --make-rshared /
