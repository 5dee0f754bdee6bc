#!/usr/bin/env bash
# Eight replicas train on one worker; three workers join by hand and take their share; one is killed
# for good, another is told to stop, lets its replicas go and ends with exit code 0. The weights are
# those of an undisturbed run in one process. Argument: the build folder.
set -uo pipefail
# shellcheck source=tests/support/app_test.sh
source "$(dirname "${BASH_SOURCE[0]}")/../support/app_test.sh"
unset TROUPE_FAILPOINTS

train() { "$build/train_digits" --digits "$data" --rule sync --replicas 8 --channels 4 --steps "$1" --out "$2"; }
moved_to() { [ "$(grep -c "moves* from .* to /job:worker/task:$1" "$out/log")" -ge "$2" ]; }

readonly steps=800
train "$steps" "$out/calm" >"$out/calm.log" 2>&1 || fail "undisturbed: exit code $?"

mkdir "$out/run"
"$build/actor-node" up --ps 1 --workers 1 --threads 1 --run-dir "$out/run" "$build/train_digits" --digits "$data" --rule sync \
  --replicas 8 --channels 4 --steps "$steps" --out "$out/moved" --move-after 1 >"$out/log" 2>&1 </dev/null &
up=$!
pids+=("$up")
wait_for 30 grep -q 'replicas* .* from /job:worker/task:7 to /job:worker/task:0: /job:worker/task:7 is not there' "$out/log" ||
  fail "eight replicas do not begin on one worker"
wait_for 30 test -s "$out/run/cluster.spec" || fail "up writes no cluster spec"
seed=$(sed -n 's/^ps *= *\([^, ]*\).*/\1/p' "$out/run/cluster.spec")
for task in 1 2 3; do
  TROUPE_SECRET_FILE=$out/run/secret "$build/actor-node" join --job worker --task "$task" --threads 1 --seed "$seed" \
    >"$out/worker$task.log" 2>&1 </dev/null &
  worker[task]=$!
  pids+=("${worker[task]}")
done
for task in 1 2 3; do wait_for 60 moved_to "$task" 2 || fail "worker $task has not taken two replicas"; done

kill -KILL "${worker[1]}"
wait "${worker[1]}" 2>/dev/null
wait_for 60 grep -q 'from /job:worker/task:1 to .*: /job:worker/task:1 has been away for' "$out/log" ||
  fail "the replicas of a lost worker do not move"
kill -TERM "${worker[2]}"
wait "${worker[2]}" || fail "a worker that leaves ends with exit code $?"
grep -q 'from /job:worker/task:2 to .*: /job:worker/task:2 leaves' "$out/log" ||
  fail "the replicas of a worker that leaves do not move first"
wait "$up" || fail "the training ends with exit code $?"
[ "$(sync_hash "$out/log")" = "$(sync_hash "$out/calm.log")" ] ||
  fail "weights $(sync_hash "$out/log"), not $(sync_hash "$out/calm.log")"
kill -TERM "${worker[3]}"
wait "${worker[3]}" || fail "a worker without a program ends with exit code $?"
echo "moves: 1, 4 and 2 workers end with the bits of one process"
