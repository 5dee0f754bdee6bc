#!/usr/bin/env bash
# Silence for 1.5 s means death: a frozen node is noticed within 2 s, a node that gets a tenth of the time is not taken for dead, and
# neither is one on a busy machine. Arguments: the build folder; the seconds of being slow (20), the seconds of load (20).
# slow
set -uo pipefail
slow=${2:-20} load=${3:-20}
# shellcheck source=tests/support/app_test.sh
source "$(dirname "${BASH_SOURCE[0]}")/../support/app_test.sh"

seed=()
for task in 0 1 2; do
  "$build/actor-node" join --job ps --task "$task" --threads 1 "${seed[@]}" --address-file "$out/ps-$task" >"$out/ps-$task.log" 2>&1 &
  pids+=($!)
  wait_for 30 test -s "$out/ps-$task" || fail "ps $task does not listen"
  seed=(--seed "$(cat "$out/ps-0")")
done
victim=${pids[2]}
known() { [ "$(grep -c 'peer=/job:ps/task:2' "$out/ps-0.log")" -gt "$1" ]; }  # LINES: and more lines tell of it
lines() { grep -c 'peer=/job:ps/task:2' "$out/ps-0.log"; }
wait_for 30 known 0 || fail 'the nodes do not meet'

worst=0
for _ in 1 2 3; do
  before=$(lines)
  begin=$(date +%s%N)
  kill -STOP "$victim"
  wait_for 10 known "$before" || fail 'nobody noticed that a node is frozen'
  ms=$((($(date +%s%N) - begin) / 1000000))
  ((ms > worst)) && worst=$ms
  before=$(lines)
  kill -CONT "$victim"
  wait_for 30 known "$before" || fail 'a node that goes on does not join again'
done
((worst <= 2000)) || fail "a frozen node was noticed after $worst ms"

sleep 2
before=$(lines)
end=$((SECONDS + slow))
while ((SECONDS < end)); do
  kill -STOP "$victim"
  sleep 0.09
  kill -CONT "$victim"
  sleep 0.01
done
[ "$(lines)" = "$before" ] || fail 'a slow node was taken for dead'

burn=()
for _ in 1 2 3 4; do
  while :; do :; done &
  burn+=($!)
done
sleep "$load"
kill "${burn[@]}"
[ "$(lines)" = "$before" ] || fail 'a node on a busy machine was taken for dead'
echo "a freeze was noticed after at most $worst ms; $slow s at a tenth of the time and $load s beside 4 busy processes: no alarm"
