#!/usr/bin/env bash
# `troupe chaos` on real processes: each kind of fault once, with the weights of an undisturbed run;
# a schedule and its replay; wrong options; ends by Ctrl-C and by a kill, which leave no process.
# Argument: the build folder.
set -uo pipefail
# shellcheck source=tests/support/app_test.sh
source "$(dirname "${BASH_SOURCE[0]}")/../support/app_test.sh"
export TMPDIR=$out/tmp
mkdir "$TMPDIR"
chaos=("$build/troupe" chaos --ps 2 --workers 2 --threads 1)

# A schedule is printed, is the same for the same seed, and its text is a schedule.
"${chaos[@]}" --seed 7 --dry-run >"$out/first" 2>&1 || fail "--dry-run: exit code $?"
"${chaos[@]}" --seed 7 --dry-run >"$out/second" 2>&1
cmp -s "$out/first" "$out/second" || fail 'one seed, two schedules'
grep -v '^chaos:' "$out/first" >"$out/schedule"
[ "$(wc -l <"$out/schedule")" -gt 50 ] || fail 'a short schedule'
"${chaos[@]}" --faults "$(cat "$out/schedule")" --dry-run | cmp -s - "$out/schedule" || fail 'a replay has another schedule'
"${chaos[@]}" --seed 7 --until 5 --dry-run | grep -v '^chaos:' | cmp -s - <(head -n 5 "$out/schedule") || fail '--until'

# Wrong options are refused with words.
expect 64 'no PROGRAM given' "${chaos[@]}"
expect 64 'there is no fault "reorder"; the kinds are kill, stop' "${chaos[@]}" --kinds kill,reorder true
expect 64 '"kill=0": a weight is a whole number' "${chaos[@]}" --kinds kill=0 true
expect 64 '--every wants a time from 1ms to 24h with its unit, as 500ms, 10s or 5m, got "10"' "${chaos[@]}" --every 10 true
expect 64 '--for wants a time' "${chaos[@]}" --for nan true
expect 64 '"1:kill:worker/2": there is no process "worker/2"' "${chaos[@]}" --faults 1:kill:worker/2 true
expect 64 '--faults is a whole schedule: --seed' "${chaos[@]}" --faults 1:kill:worker/1 --seed 3 true
expect 64 'disk_full wants --disk' "${chaos[@]}" --kinds disk_full true
expect 64 '--result is no regular expression' "${chaos[@]}" --result '(' true
expect 64 'at least one worker' "$build/troupe" chaos --workers 0 true
expect 127 '' "${chaos[@]}" "$out/no-such-program"
expect 3 'finished no step' "${chaos[@]}" bash -c 'exit 3'
expect 0 'not possible here: disk_full: no --disk' "${chaos[@]}" true
[ $failures = 0 ] || fail "$failures of $tried calls"

# Each kind once; the last lines compare the weights with those of a run in one process. A worker
# that left for no fixed time comes back.
faults='1:kill:worker/1 2.5:stop:program:600 3.5:slow:worker/0:700 4.5:cut:worker/0>ps/1:500 5.5:cut_from:ps/0>worker/1:500
  6.5:delay:program>worker/0:500 7:throttle:worker/1>ps/0:800 8:reset:worker/0>program 9:corrupt:worker/1>ps/1 9.5:stop:ps/1:500
  10.2:leave:worker/0 11:join:worker/0 12:kill:ps/0'
disk=()
if unshare -m true 2>/dev/null || unshare -Um true 2>/dev/null; then
  disk=(--disk "$out/small")
  faults+=' 13:disk_full:disk:500'
fi
# The training is to outlast its faults, however fast the machine is: 7 s by each rule, and the stops.
timeout 60 "$build/actor-node" up --ps 2 --workers 2 --threads 1 "$build/train_digits" --digits "$data" --steps 300 --rule sync \
  --out "$out/pace" >"$out/log" 2>&1 || fail "an undisturbed training: exit code $?"
steps=$(sed -n 's/^sync: 300 steps in \([0-9.]*\) s.*/\1/p' "$out/log" | awk '{ print int(7 * 300 / ($1 + 0.01)) + 1 }')
[ -n "$steps" ] || fail 'an undisturbed training tells no time'
timeout 100 "${chaos[@]}" --faults "$faults" "${disk[@]}" --run-dir "$out/run" \
  "$build/train_digits" --digits "$data" --steps "$steps" --out "$out/small/digits" --verify >"$out/log" 2>&1 ||
  fail "each kind once: exit code $?"
grep -q 'equal, to the bit' "$out/log" || fail 'other weights'
happened=$(grep -cE '^chaos +[0-9.]+ s  [a-z_]+ [a-z/0-9>]+( \(pid [0-9]+\))?( for [0-9.]+ s)?$' "$out/log")
[ "$happened" = $((${#disk[@]} > 0 ? 14 : 13)) ] || fail "$happened faults have a line"
for kind in kill stop slow cut cut_from delay throttle reset corrupt join; do
  grep -qE "^chaos +[0-9.]+ s  $kind .*: training goes on after [0-9.]+ s$" "$out/log" || fail "$kind: no line of the repair"
done
grep -qE '^chaos: kill +2 +2 +0 ' "$out/log" || fail 'no row of the table'
[ -z "$(ls "$out/small" 2>/dev/null)" ] || [ ${#disk[@]} = 0 ] || fail 'the small disk is not of the run alone'

# The program is killed and goes on from its checkpoint; a run without faults has the same result.
timeout 100 "${chaos[@]}" --faults '0.8:kill:program' --expect-same --result '^sync: .* sha256 ([0-9a-f]+)' \
  "$build/train_digits" --digits "$data" --steps "$((steps / 3))" --out "$out/again" >"$out/log" 2>&1 || fail "a killed program: exit code $?"
grep -q 'kill program: training goes on after' "$out/log" || fail 'a killed program was not started again'
grep -q '^chaos: the same result as undisturbed: [0-9a-f]' "$out/log" || fail 'not the result of the undisturbed run'
# Another result is found.
timeout 100 "${chaos[@]}" --expect-same --result 'result (.*)' --faults 9:kill:ps/0 bash -c 'echo "result $RANDOM$RANDOM"' >"$out/log" 2>&1
code=$?
[ $code = 1 ] && grep -q 'ANOTHER RESULT' "$out/log" || fail "two results: exit code $code"

# A check in a run without a fault shows nothing.
expect 2 'nothing is shown: no fault has struck' "${chaos[@]}" --expect-same --result 'result (.*)' --faults 9:kill:ps/0 echo 'result 1'
expect 2 'nothing is shown: no fault has struck' "${chaos[@]}" --check-leaks --faults 9:kill:ps/0 true
[ $failures = 0 ] || fail "$failures of $tried calls"

# A file that PROGRAM writes in its first run alone is no result of the second.
timeout 100 "${chaos[@]}" --compare "$out/result" --faults 9:kill:ps/0 \
  bash -c '[ -e "$1" ] || echo result >"$1"' first "$out/result" >"$out/log" 2>&1
code=$?
[ $code = 64 ] && grep -q 'PROGRAM has not written' "$out/log" || fail "a result of another run: exit code $code"

# Ctrl-C ends all and prints the faults so far; a kill of chaos ends all, also what is frozen.
processes() { pgrep -f -- "$out/ended/" || pgrep -f -- '--run-dir '"$out/ended"; }
none_left() { ! processes; }
for signal in INT KILL; do
  : >"$out/log"
  "${chaos[@]}" --run-dir "$out/ended" --faults '0.2:stop:worker/0:60000 0.3:stop:program:60000 500:kill:ps/0' --frozen-after 0 \
    "$build/train_digits" --digits "$data" --steps 100000 --out "$out/ended/out" >"$out/log" 2>&1 &
  pid=$!
  wait_for 30 grep -q 's  stop program' "$out/log" || { kill $pid; fail "SIG$signal: the faults did not begin"; }
  pids_of_nodes=$(cat "$out/ended/nodes"/*.pid)
  kill -$signal $pid
  wait $pid 2>/dev/null
  code=$?
  [ $signal = KILL ] || [ $code = 130 ] || fail "SIGINT: exit code $code"
  [ $signal = KILL ] || grep -qx "chaos: again: --faults '0.200:stop:worker/0:60000 0.300:stop:program:60000'" "$out/log" ||
    fail 'Ctrl-C: the faults so far are not printed'
  wait_for 5 none_left || fail "SIG$signal: left behind: $(processes)"
  for node in $pids_of_nodes; do
    ! grep -qs '^State:.[^ZX]' "/proc/$node/status" || fail "SIG$signal: node $node is left behind"
  done
done
# Only the killed chaos could not remove its folder.
[ "$(find "$TMPDIR" -mindepth 1 | wc -l)" = 0 ] || fail 'files left in TMPDIR'
echo 'each kind of fault once with equal weights; schedules, replays and wrong options; Ctrl-C and a kill leave nothing'
