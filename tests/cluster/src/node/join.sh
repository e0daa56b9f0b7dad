# Arguments: cgroup.procs files, "--", a program with its arguments. Joins the cgroups, then becomes the program.
set -eu
while [ "$1" != -- ]; do
  echo 0 >"$1" # 0 is the writer itself
  shift
done
shift
exec "$@"
