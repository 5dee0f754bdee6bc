#!/usr/bin/env bash
# A cluster described in a file: nodes and programs read it; nodes without a number take a free one.
# Argument: the build folder.
set -uo pipefail
# shellcheck source=tests/support/app_test.sh
source "$(dirname "${BASH_SOURCE[0]}")/../support/app_test.sh"

# Ports that are free, taken from the spec of an ended cluster.
"$build/actor-node" up --ps 1 --workers 2 --run-dir "$out/ports" true 2>"$out/ports.log" || fail "no cluster to copy from"
spec=$out/ports/cluster.spec
# Three nodes at once, all without a number.
for job in ps worker worker; do
  "$build/actor-node" join --spec "$spec" --job $job --threads 1 2>"$out/node-${#pids[@]}.log" &
  pids+=($!)
done
"$build/train_digits" --digits "$data" --steps 20 --out "$out/train" --spec "$spec" >"$out/train.log" 2>&1 ||
  fail "training on the spec: exit code $?"
grep -q '/job:worker/task:0/device:cpu:0' "$out/train.log" || fail 'nothing ran on the workers'
for task in worker/task:0 worker/task:1 ps/task:0; do
  grep -qh "/job:$task listening" "$out"/node-*.log || fail "nobody became /job:$task"
done

# One more worker than the spec has.
timeout 20 "$build/actor-node" join --spec "$spec" --job worker 2>"$out/more.log"
[ $? = 74 ] || fail 'a third worker of two'
grep -q 'no task of job worker is free on this machine' "$out/more.log" || fail 'a third worker: another message'

# Without a spec the members tell the node a free number.
seed=$(sed -n 's/^ps = //p' "$spec")
"$build/actor-node" join --job worker --seed "$seed" --address-file "$out/address" 2>"$out/drawn.log" &
pids+=($!)
wait_for 20 test -s "$out/address" || fail 'the node without a number does not listen'
grep -q '/job:worker/task:2 listening' "$out/drawn.log" || fail 'not the free number 2'

# The same cluster, given on the command line.
lines=()
while IFS= read -r line; do lines+=(--hosts "$line"); done < <(grep -v '^#' "$spec")
timeout 20 "$build/actor-node" join "${lines[@]}" --job ps 2>"$out/words.log"
[ $? = 74 ] || fail 'a second ps of one, by --hosts'
echo "three nodes found their tasks in a file, a fourth asked; a program trained there"
