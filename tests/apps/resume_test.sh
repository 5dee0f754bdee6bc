#!/usr/bin/env bash
# A training that stops at a checkpoint and is resumed ends with the bits of one that never stopped;
# one that a signal stops says how to resume. Argument: the build folder.
# slow
set -euo pipefail
# shellcheck source=tests/support/app_test.sh
source "$(dirname "${BASH_SOURCE[0]}")/../support/app_test.sh"

"$build/train_digits" --digits "$data" --steps 80 --out "$out/whole" >"$out/whole.log" 2>&1
"$build/train_digits" --digits "$data" --steps 40 --out "$out/cut" >"$out/first.log" 2>&1
"$build/train_digits" --digits "$data" --steps 80 --out "$out/cut" --resume >"$out/second.log" 2>&1
grep -q 'resumed at step 40' "$out/second.log" || { cat "$out/second.log"; echo "did not resume at step 40"; exit 1; }
whole=$(sync_hash "$out/whole.log")
resumed=$(sync_hash "$out/second.log")
[ -n "$whole" ] && [ "$whole" = "$resumed" ] || { echo "whole $whole, resumed $resumed"; exit 1; }

# The same on a cluster, whose shards are cut differently; the second cluster is new and has only
# the folder.
for steps in '40' '80 --resume'; do
  # shellcheck disable=SC2086  # an option is words
  "$build/actor-node" up --ps 2 --workers 2 --threads 1 "$build/train_digits" --digits "$data" --out "$out/spread" --steps $steps >"$out/spread.log" 2>&1
done
grep -q 'resumed at step 40' "$out/spread.log" || fail 'the cluster did not resume at step 40'
[ "$(sync_hash "$out/spread.log")" = "$whole" ] || fail "resumed on a cluster: other weights than $whole"

# A run that begins anew and is cut off in its first training leaves nothing of an earlier run for
# --resume: the second training begins at step 0.
cp -r "$out/cut" "$out/anew"
"$build/train_digits" --digits "$data" --rule async --steps 20 --learning-rate 0.02 --out "$out/anew" >"$out/anew.log" 2>&1
[ ! -e "$out/anew/checkpoint-sync" ] || fail 'checkpoints of an earlier run are still there'

# No step is left to train: no trace is named.
"$build/train_digits" --digits "$data" --steps 80 --out "$out/cut" --resume >"$out/idle.log" 2>&1
grep -q '^trace .*: none, as there was no step left' "$out/idle.log" || { cat "$out/idle.log"; echo "a trace of nothing"; exit 1; }

# Stopped by a signal: one line names the checkpoints, and the signal still ends the program.
mkfifo "$out/lines"
"$build/train_digits" --digits "$data" --steps 100000 --out "$out/stopped" >"$out/lines" 2>&1 &
pid=$!
while IFS= read -r line; do
  case $line in 'sync step'*) kill -TERM $pid 2>/dev/null || true ;; esac
  printf '%s\n' "$line"
done <"$out/lines" >"$out/stopped.log"
code=0
wait $pid || code=$?
[ "$code" = 143 ] && [ "$(tail -n 1 "$out/stopped.log")" = \
  "stopped by SIGTERM; checkpoints, if there are any yet, are in $out/stopped; go on with the same command and --resume" ] ||
  { cat "$out/stopped.log"; echo "stopped: exit code $code"; exit 1; }

# A damaged newest checkpoint is reported, and the one before it is used; the weights are the same
# again.
manifest=$(ls "$out/cut/checkpoint-sync/"*.manifest.json | tail -n 1)
printf 'x' >>"$manifest"
"$build/train_digits" --digits "$data" --steps 80 --out "$out/cut" --resume >"$out/third.log" 2>&1
grep -q "$(basename "$manifest")" "$out/third.log" || { cat "$out/third.log"; echo "the damage was not mentioned"; exit 1; }
[ "$(sync_hash "$out/third.log")" = "$whole" ] || { echo "after the damage: other weights"; exit 1; }
echo "resumed, on a cluster too, and past a damaged manifest: ${whole:0:16}, equal"
