#!/usr/bin/env bash
# A ps, or the worker, dies when the last step is done and the program computes its final results.
# When the process is back, the program computes them again from the last checkpoint; weights and
# accuracy are those of an undisturbed run. Argument: the build folder.
# slow
set -uo pipefail
# shellcheck source=tests/support/app_test.sh
source "$(dirname "${BASH_SOURCE[0]}")/../support/app_test.sh"

told() { grep '^sync .*sha256' "$out/log" | awk '{ print $4, $6, $9 }'; }  # accuracies and weights
train() {
  exec "$build/actor-node" up --ps 2 --workers 1 --threads 1 --run-dir "$out/run" \
    "$build/train_digits" --digits "$data" --validation 100 --steps 60 --out "$out/train"
}
last_checkpoint() { compgen -G "$out/train/checkpoint-sync/*-step60.manifest.json" >/dev/null; }

# Stops the worker at the last step, so that it computes no accuracy before the kill.
kill_then() {  # JOB
  local worker
  worker=$(<"$out/run/worker-0.pid")
  kill -STOP "$worker"
  wait_for 10 last_checkpoint
  read -rt 0.3 <> <(:)  # the final weights are read
  kill -9 "$(<"$out/run/$1-0.pid")"
  kill -CONT "$worker" 2>/dev/null
}

(train) >"$out/log" 2>&1 || fail "undisturbed: exit code $?"
undisturbed=$(told)
mkfifo "$out/lines"
for job in ps worker; do
  for try in {1..5}; do
    rm -rf "$out/run" "$out/train"
    train >"$out/lines" 2>&1 &
    up=$!
    pids=("$up")
    while IFS= read -r line; do
      printf '%s\n' "$line"
      case $line in 'sync step 60/60'*) kill_then "$job" & ;; esac
    done <"$out/lines" >"$out/log"
    wait "$up" || fail "$job killed: exit code $?"
    [ "$(told)" = "$undisturbed" ] || fail "$job killed: accuracy and weights are $(told), not $undisturbed"
    grep -q '^sync: .* lost after the training' "$out/log" && break
    [ "$try" = 5 ] && fail "$job killed: five times not while the accuracy was computed"
  done
done
echo "after a ps and a worker killed at the end: accuracy and weights $(told | cut -c 1-28), as undisturbed"
