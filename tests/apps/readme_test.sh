#!/usr/bin/env bash
# The commands of README.md's section "A cluster" work as documented and as written, with other
# ports and a short training. Argument: the build folder.
set -uo pipefail
# shellcheck source=tests/support/app_test.sh
source "$(dirname "${BASH_SOURCE[0]}")/../support/app_test.sh"
tree=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
section=$(awk '/^## / { on = $0 == "## A cluster" } on' "$tree/README.md")

# They run in a folder that looks like a clone, with free ports instead of 7000 and the next.
mkdir "$out/clone"
ln -s "$(readlink -f "$build")" "$out/clone/build"
ln -s "$tree/data" "$out/clone/data"
"$build/actor-node" up --ps 1 --workers 2 --run-dir "$out/ports" true 2>"$out/ports.log" || fail 'no cluster to copy from'
mapfile -t ports < <(grep -v '^#' "$out/ports/cluster.spec" | grep -o ':[0-9]*')
for i in 0 1 2; do section=${section//:700$i/${ports[i]}}; done
mapfile -t commands < <(grep '^build/' <<<"$section")
[ ${#commands[@]} = 7 ] || fail "README.md has ${#commands[@]} commands there; this script knows 7"
cd "$out/clone" || exit 1

start() {  # COMMAND: in the background; $! is the program itself
  bash -c "exec $1" 2>"$out/node-${#pids[@]}.log" &
  pids+=($!)
}
stop() {
  kill "${pids[@]}"
  for pid in "${pids[@]}"; do wait "$pid" || fail 'a stopped node did not exit with 0'; done
  pids=()
}

# On one machine.
command=${commands[0]/PROGRAM ARGS.../build/train_digits --steps 20}
bash -c "$command" >"$out/up.log" 2>&1 || fail "$command: exit code $?"
grep -q '^async .*sha256' "$out/up.log" || fail "$command: no training"

# Nodes started by hand find each other.
start "${commands[1]}"
start "${commands[2]}"
wait_for 20 grep -q 'peer up: peer=/job:worker/task:0 ' "$out/node-0.log" || fail 'the ps did not meet the worker'
wait_for 20 grep -q 'peer up: peer=/job:ps/task:0 ' "$out/node-1.log" || fail 'the worker did not meet the ps'
stop

# With a cluster file; the program trains there.
grep -E '^(ps|worker) = ' <<<"$section" >cluster.spec
[ "$(wc -l <cluster.spec)" = 2 ] || fail 'README.md has no cluster spec of two lines'
for i in 3 4 5; do start "${commands[i]}"; done
bash -c "${commands[6]} --steps 20" >"$out/train.log" 2>&1 || fail "${commands[6]}: exit code $?"
grep -q '^async .*sha256' "$out/train.log" || fail "${commands[6]}: no training"
stop
echo 'the seven commands of "A cluster" work as they stand there'
