#!/bin/busybox sh
# The first process of a guest: takes the machine's own file system for its root, read-only below a layer of memory, and
# runs the suites there. What is printed is read by the host.
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc
mount -t devtmpfs dev /dev
for module in /modules/*; do insmod "$module" || echo "vm: cannot load $module"; done
mount -t 9p -o trans=virtio,version=9p2000.L,cache=loose,ro,msize=512000 host /host || echo "vm: no host"
mount -t tmpfs -o size=2g layer /layer
mkdir /layer/upper /layer/work
mount -t overlay overlay -o lowerdir=/host,upperdir=/layer/upper,workdir=/layer/work /new
# The kernel loads modules by this program.
cp /bin/busybox /new/sbin/modprobe
mkdir -p /new/lib/modules
mount -o bind "/host@TREE@/lib/modules" /new/lib/modules
mount -t proc proc /new/proc
mount -t sysfs sys /new/sys
mount -t devtmpfs dev /new/dev
mkdir -p /new/dev/pts
mount -t devpts devpts /new/dev/pts
mount -t tmpfs tmp /new/tmp
mount -t tmpfs run /new/run
mount -t cgroup2 cgroup2 /new/sys/fs/cgroup
for controller in $(cat /new/sys/fs/cgroup/cgroup.controllers); do
    echo "+$controller" > /new/sys/fs/cgroup/cgroup.subtree_control
done
ip link set lo up
cp /suites /new/tmp/suites
exec switch_root /new /bin/sh /tmp/suites
