#!/usr/bin/env bash
# A program that is frozen for longer than its peers wait for a word, and goes on, has lost its links and nothing else: no shard goes
# back, no step that was done is done again, and the weights are those of an undisturbed run. Argument: the build folder.
# slow
set -uo pipefail
# shellcheck source=tests/support/app_test.sh
source "$(dirname "${BASH_SOURCE[0]}")/../support/app_test.sh"

"$build/actor-node" up --ps 2 --workers 2 --threads 1 \
  "$build/train_digits" --digits "$data" --steps 200 --out "$out/run" --verify >"$out/log" 2>&1 &
up=$!
pids+=("$up")
wait_for 30 grep -q 'sync step [1-9]' "$out/log" || fail 'the training did not begin'
program=$(pgrep -P "$up" train_digits) || fail 'no program runs'
kill -STOP "$program"
sleep 3
kill -CONT "$program"
wait "$up" || fail "exit code $?"
grep -q '/job:ps/task:0, which holds parameters, is gone' "$out/log" || fail 'the links were not lost'
grep -q 'every shard is as it was' "$out/log" || fail 'nobody said that the shards are as they were'
! grep -q 'shards restored' "$out/log" || fail 'shards were restored, and none had died'
grep -q 'equal, to the bit' "$out/log" || fail 'the weights differ'
echo "frozen for 3 s: $(grep -c 'every shard is as it was' "$out/log") words that the shards are as they were, weights equal"
