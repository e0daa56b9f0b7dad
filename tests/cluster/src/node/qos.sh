# Lets a kubelet start again where cgroup v2 has no controllers.
# It creates the quality-of-service groups that it does not find, which works, and updates the resources of those that
# it finds, which fails for want of cpu.weight. It does not find a group whose cgroup.controllers cannot be read.
set -eu
unreadable=$STATE/unreadable
[ -e "$unreadable" ] || mknod "$unreadable" c 0 0 # no driver has this number: opening fails
for class in besteffort burstable; do
  file=/sys/fs/cgroup/kubepods/$class/cgroup.controllers
  if [ -f "$file" ]; then
    mount --bind "$unreadable" "$file"
  fi
done
