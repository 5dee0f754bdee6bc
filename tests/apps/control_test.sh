#!/usr/bin/env bash
# A running cluster that is asked and steered from a shell: troupe jobs, troupe ledger and troupe set
# on a training of 2 workers and 1 ps. The ledger adds up while it runs, the rule goes from sync to
# ssp:3 and back, the rate scale is halved, nonsense is refused, a tool that is stopped or killed harms nothing,
# and the training ends well. Argument: the build folder.
set -uo pipefail
# shellcheck source=tests/support/app_test.sh
source "$(dirname "${BASH_SOURCE[0]}")/../support/app_test.sh"
unset TROUPE_SECRET_FILE TROUPE_CLUSTER TROUPE_CLUSTER_NAME
troupe=$build/troupe
(umask 077 && head -c 32 /dev/urandom | base64 >"$out/secret" && head -c 32 /dev/urandom | base64 >"$out/other")
secret=(--secret-file "$out/secret")

address_of() { wait_for 20 test -s "$1" || fail "no address in $1"; cat "$1"; }
"$build/actor-node" join --job ps --task 0 --threads 1 --address-file "$out/ps" "${secret[@]}" 2>"$out/ps.log" &
pids+=($!)
ps=$(address_of "$out/ps")
for i in 0 1; do
  "$build/actor-node" join --job worker --task $i --threads 1 --seed "$ps" --address-file "$out/worker$i" "${secret[@]}" 2>"$out/worker$i.log" &
  pids+=($!)
done
worker=$(address_of "$out/worker0")
printf 'ps = %s\nworker = %s, %s\n' "$ps" "$worker" "$(address_of "$out/worker1")" >"$out/spec"
at=(--join "$worker" "${secret[@]}")

# No program has joined yet.
expect 0 'no training is running' "$troupe" jobs "${at[@]}"
expect 69 'no training is running in the cluster' "$troupe" ledger "${at[@]}"
expect 69 'no training is running in the cluster' "$troupe" set "${at[@]}" --rule async

# More steps than the checks below take time for.
steps=16000
"$build/train_digits" --digits "$data" --spec "$out/spec" "${secret[@]}" --rule sync --steps $steps --ledger --out "$out/trained" >"$out/train.log" 2>&1 &
train=$!
pids+=($!)
running() { "$troupe" jobs "${at[@]}" 2>/dev/null | grep -q ' trains .*[1-9][0-9]*/'"$steps"; }
wait_for 60 running || fail 'the training does not show'

expect 0 "train_digits .* trains .*/$steps .* sync  1 " "$troupe" jobs "${at[@]}"
expect 0 '/job:worker/task:1 computes replica 1' "$troupe" jobs --spec "$out/spec" "${secret[@]}"
cp "$out/log" "$out/jobs.log"

# The ledger adds up at every moment, or the exit code would be 70.
for _ in 1 2 3 4 5; do expect 0 '^  total ' "$troupe" ledger "${at[@]}"; done
cp "$out/log" "$out/ledger.log"
[ "$(grep -c '^  [a-z0-9]*/[wb] ' "$out/log")" = 16 ] || fail 'the ledger has other rows than 8 parameters of 2 replicas'
expect 0 '^  conv1/w ' "$troupe" ledger "${at[@]}" --parameter 'conv1/*'
[ "$(grep -c '^  [a-z0-9]*/[wb] ' "$out/log")" = 4 ] || fail 'the pattern conv1/* has other rows'
expect 0 '"total": {"received": [1-9]' "$troupe" ledger "${at[@]}" --json
if command -v python3 >/dev/null; then
  python3 - "$out/log" <<'EOF' || fail 'the JSON does not add up'
import json, sys
told = json.load(open(sys.argv[1]))
def ended(row): return sum(row[k] for k in ("applied", "merged", "late", "duplicate", "held")) + sum(row["refused"].values())
assert len(told["rows"]) == 16 and all(row["received"] == ended(row) for row in told["rows"])
assert told["total"]["received"] == sum(row["received"] for row in told["rows"]) == ended(told["total"])
EOF
fi

# The rule and the rate scale, by a worker and by the ps.
expect 0 'the rule of /job:client/task:[0-9]* (train_digits) is ssp:3 from step [0-9]* on' "$troupe" set "${at[@]}" --rule ssp:3
cp "$out/log" "$out/set.log"
expect 0 ' ssp:3  1 ' "$troupe" jobs "${at[@]}"
expect 0 'is 0.5 from step [0-9]* on' "$troupe" set --join "$ps" "${secret[@]}" --rate 0.5 --job train_digits
expect 0 ' ssp:3  0.5 ' "$troupe" jobs "${at[@]}"
expect 0 'is sync from step [0-9]* on' "$troupe" set "${at[@]}" --rule sync

# Nonsense, with the errors of the call in the program.
expect 64 'unknown aggregation rule "best"' "$troupe" set "${at[@]}" --rule best
expect 64 'leaves out 2 of 2 replicas' "$troupe" set "${at[@]}" --rule sync-backup:2
expect 64 'past the end of the training, which has 16000 steps' "$troupe" set "${at[@]}" --rule async --at $steps
expect 64 'set_rule(): the step is -3' "$troupe" set "${at[@]}" --rule async --at -3
expect 64 'set wants --rule or --rate' "$troupe" set "${at[@]}"
expect 64 'set wants --rule or --rate' "$troupe" set "${at[@]}" --rule async --rate 2
expect 64 'the rate scale is -1; wants a positive number' "$troupe" set "${at[@]}" --rate -1
expect 64 'no program is called "other"; there are: /job:client/task:[0-9]* (train_digits)' "$troupe" ledger "${at[@]}" --job other
expect 64 'no parameter of .* matches "embedding"' "$troupe" ledger "${at[@]}" --parameter embedding
expect 64 'no cluster is named' "$troupe" jobs "${secret[@]}"
expect 78 'has another secret than' "$troupe" jobs --join "$worker" --secret-file "$out/other"
expect 78 'has a secret and .* has none' "$troupe" jobs --join "$worker"
expect 69 'nobody answered at 127.0.0.1:1 ' "$troupe" jobs --join 127.0.0.1:1 "${secret[@]}" --timeout 1

# Two programs: the tool names them, and --job chooses one.
first=$("$troupe" jobs "${at[@]}" | awk '/ trains / { print $1 }')
"$build/train_digits" --digits "$data" --spec "$out/spec" "${secret[@]}" --rule async --steps 1000000 --out "$out/second" >"$out/second.log" 2>&1 &
second=$!
pids+=($!)
two() { [ "$("$troupe" jobs "${at[@]}" 2>/dev/null | grep -c ' trains ')" = 2 ]; }
wait_for 60 two || fail 'two programs do not show'
expect 64 "several programs are there: .*$first (train_digits).*; choose one by its task: --job" "$troupe" ledger "${at[@]}"
expect 64 'several programs are there' "$troupe" ledger "${at[@]}" --job train_digits
expect 0 'and replica (sync)' "$troupe" ledger "${at[@]}" --job "$first"
kill -9 $second
wait $second 2>/dev/null

# Tools that are stopped and killed while they wait for a step far ahead: the training goes on, and
# the change stays asked for.
for _ in 1 2 3; do
  "$troupe" set "${at[@]}" --rate 0.25 --at $((steps - 1)) >"$out/killed.log" 2>&1 &
  tool=$!
  pids+=($!)
  wait_for 20 grep -q "the change is for step $((steps - 1)); the training is at step" "$out/killed.log" || fail 'a tool does not wait for its step'
  kill -STOP $tool
  expect 0 " trains " "$troupe" jobs "${at[@]}"
  kill -9 $tool
  wait $tool 2>/dev/null
done
expect 0 ' trains ' "$troupe" jobs "${at[@]}"

wait $train || fail "the training ended with $?"
grep -q 'the rule is ssp:3 from step ' "$out/train.log" || fail 'the program did not tell of the change'
grep -q 'the rate scale is 0.5 from step ' "$out/train.log" || fail 'the program did not tell of the rate scale'
grep -q "the rate scale is 0.25 from step $((steps - 1)) on" "$out/train.log" || fail 'a change went with its tool'
[ "$(grep -c 'task:[0-9]* is gone' "$out/train.log")" = 1 ] || fail 'not only the end of the other program is an event of the training'
[ $failures = 0 ] || fail "$failures of $tried checks"
echo "$tried checks: the ledger adds up while it runs, rule and rate scale change, nonsense is refused"
