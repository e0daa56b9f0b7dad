# Arguments: a file for "PID START", a log file, a program with its arguments. The record is there before the program.
set -eu
record=$1 log=$2
shift 2
field_20() {
  shift 19
  echo "$1"
}
read -r stat <"/proc/$$/stat"
# The 22nd field of all, counted after the name in parentheses.
echo "$$ $(field_20 ${stat##*) })" >"$record.new"
mv "$record.new" "$record"
exec "$@" </dev/null >>"$log" 2>&1
