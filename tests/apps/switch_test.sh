#!/usr/bin/env bash
# The digits on a cluster whose rule changes each 50 steps, over all rules: the accuracy is that of
# one rule, each change is told, and each slice has as many updates as its gradients make. A run
# that stops between two changes goes on with the rule of its checkpoint, and so does one whose
# parameter server is killed. Argument: the build folder.
# slow
set -euo pipefail
# shellcheck source=tests/support/app_test.sh
source "$(dirname "${BASH_SOURCE[0]}")/../support/app_test.sh"

# Switches each 50 steps, up to step 1150, and the updates that the rules make in 1200 steps.
rules=(sync-backup:1 ssp:3 async sync ssp-damped:0 async-damped)
list='' updates=50  # of the first 50 steps, under sync
for ((step = 50, i = 0; step < 1200; step += 50, ++i)); do
  rule=${rules[i % ${#rules[@]}]}
  list+=,$step=$rule
  case $rule in sync*) updates=$((updates + 50)) ;; *) updates=$((updates + 100)) ;; esac
done

run() {  # NAME ARGS...: on 2 ps and 2 workers; the log is in $out/NAME.log
  timeout 110 "$build/actor-node" up --ps 2 --workers 2 --threads 1 "$build/train_digits" --digits "$data" \
    --switch "${list#,}" --out "$out/$1" "${@:2}" >"$out/$1.log" 2>&1 || fail "$1: exit code $?"
}

# The column "updates" of all slices.
updates_in() { awk '/^Where the parameters/ { on = 1 } /^$/ { on = 0 } on && $NF ~ "^/job:ps" { print $7 }' "$out/$1.log" | sort -u; }

run whole
grep -q '^passed: at least 94 %' "$out/whole.log" || fail 'the accuracy is not reached'
[ "$(grep -c 'the rule is .* on; before it was ' "$out/whole.log")" = 23 ] || fail 'not every change is told'
grep -q 'the rule is ssp:3 from step 100 on; before it was sync-backup:1' "$out/whole.log" || fail 'another change'
[ "$(updates_in whole)" = "$updates" ] || fail "the slices have $(updates_in whole) updates, not $updates"

run cut --steps 320
grep -q 'the training ends at step 320, before the change at step 350' "$out/cut.log" || fail 'no word on later changes'
run cut --steps 1200 --resume
grep -q 'resumed at step 320 from .*, with the rule async-damped' "$out/cut.log" || fail 'it resumed with another rule'
grep -q 'the rule is sync-backup:1 from step 350 on; before it was async-damped' "$out/cut.log" || fail 'no change after it resumed'
[ "$(updates_in cut)" = "$updates" ] || fail "resumed: the slices have $(updates_in cut) updates, not $updates"

run killed --kill ps
grep -q 'shards restored at step' "$out/killed.log" || fail 'nothing was restored'
[ "$(updates_in killed)" = "$updates" ] || fail "killed: the slices have $(updates_in killed) updates, not $updates"
set +e  # expect() looks at exit codes
expect 64 'is no step from 1 on' "$build/train_digits" --digits "$data" --out "$out/bad" --switch 0=async
expect 64 'comes after step 300' "$build/train_digits" --digits "$data" --out "$out/bad" --switch 300=async,200=sync
expect 64 'unknown aggregation rule "best"' "$build/train_digits" --digits "$data" --out "$out/bad" --switch 20=best
[ "$failures" = 0 ] || exit 1
echo "23 changes of the rule, $updates updates of each slice; resumed and killed, too"
