#!/usr/bin/env bash
# Nodes started by hand train; one worker is frozen and not killed: within seconds one line names
# the waiting process and the missing one, the time since when, and a remedy. When the worker
# resumes, so does the training, and it ends normally. Argument: the build folder.
# slow
set -euo pipefail
# shellcheck source=tests/support/app_test.sh
source "$(dirname "${BASH_SOURCE[0]}")/../support/app_test.sh"

seed=()
for node in ps/0 worker/0 worker/1; do
  name=${node/\//-}
  "$build/actor-node" join --job "${node%/*}" --task "${node#*/}" --threads 1 "${seed[@]}" --address-file "$out/$name" \
    >"$out/$name.log" 2>&1 &
  pids+=($!)
  wait_for 30 test -s "$out/$name" || fail "$name does not listen"
  seed=(--seed "$(cat "$out/ps-0")")
done
worker=${pids[1]}

: >"$out/train.log"
TROUPE_CLUSTER=$(cat "$out/ps-0") TROUPE_PS=1 TROUPE_WORKERS=2 "$build/train_digits" --digits "$data" --steps 400 \
  --out "$out/run" >"$out/train.log" 2>&1 &
train=$!
pids+=("$train")
wait_for 60 grep -q "^sync step" "$out/train.log" || fail "the training did not begin"
kill -STOP "$worker"
wait_for 15 grep -q "still under way: run=" "$out/train.log" || fail "nobody said that a run takes long"
line=$(grep -m 1 'still under way: run=' "$out/train.log")
for part in '/job:worker/task:1 waits: ' '/job:ps/task:0 waits: ' 'of replica 0' 'kill it'; do
  case $line in *"$part"*) ;; *) fail "the line does not say \"$part\": $line" ;; esac
done
kill -CONT "$worker"
wait "$train" || fail "exit code $?"
grep -q '^async .*sha256' "$out/train.log" || fail "the training did not end"
echo "$line"
