#!/usr/bin/env bash
# Nodes started by hand train; one worker is frozen, and nobody kills it: within seconds one line says who waits for whom, since
# when, and what to try. When the worker goes on, so does the training, and it ends as ever. Argument: the build folder.
set -euo pipefail
build=$1
data=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../data" && pwd)/digits.csv.gz
out=$(mktemp -d)
pids=()
trap 'kill -CONT "${pids[@]}" 2>/dev/null; kill "${pids[@]}" 2>/dev/null; wait; rm -rf "$out"' EXIT

fail() {
  echo "stall_test: $1"
  cat "$out"/*.log
  exit 1
}
# Until `$1` holds, `$2` tenths of a second at most.
wait_until() {
  for ((i = 0; i < $2; ++i)); do
    if eval "$1"; then return 0; fi
    sleep 0.1
  done
  return 1
}

seed=()
for node in ps/0 worker/0 worker/1; do
  name=${node/\//-}
  "$build/actor-node" join --job "${node%/*}" --task "${node#*/}" --threads 1 "${seed[@]}" --address-file "$out/$name" \
    >"$out/$name.log" 2>&1 &
  pids+=($!)
  wait_until '[ -s "$out/$name" ]' 300 || fail "$name does not listen"
  seed=(--seed "$(cat "$out/ps-0")")
done
worker=${pids[1]}

: >"$out/train.log"
TROUPE_CLUSTER=$(cat "$out/ps-0") TROUPE_PS=1 TROUPE_WORKERS=2 "$build/train_digits" --digits "$data" --steps 400 \
  --out "$out/run" >"$out/train.log" 2>&1 &
train=$!
pids+=("$train")
wait_until 'grep -q "^sync step" "$out/train.log"' 600 || fail "the training did not begin"
kill -STOP "$worker"
wait_until 'grep -q "no progress: run=" "$out/train.log"' 150 || fail "nobody said that there is no progress"
line=$(grep -m 1 'no progress: run=' "$out/train.log")
for part in '/job:worker/task:1 waits: ' '/job:ps/task:0 waits: ' 'of slot 0' 'kill it'; do
  case $line in *"$part"*) ;; *) fail "the line does not say \"$part\": $line" ;; esac
done
kill -CONT "$worker"
wait "$train" || fail "exit code $?"
grep -q '^async .*sha256' "$out/train.log" || fail "the training did not end"
echo "$line"
