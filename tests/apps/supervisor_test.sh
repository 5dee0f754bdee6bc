#!/usr/bin/env bash
# The reactions of `actor-node up` to programs that end at once or are stopped, to processes that
# freeze, die too often or crash, and to a removed run folder. Argument: the build folder.
# slow
set -uo pipefail
# shellcheck source=tests/support/app_test.sh
source "$(dirname "${BASH_SOURCE[0]}")/../support/app_test.sh"
export TMPDIR=$out/tmp
mkdir "$TMPDIR"

# A program may end before its nodes are ready: each node is told to end, in any state.
for i in {1..45}; do
  case $((i % 3)) in
    0) program=(true) code=0 ;;
    1) program=("$out/no-such-program") code=127 ;;
    2) program=(sleep "0.0$i") code=0 ;;
  esac
  timeout 3 "$build/actor-node" up --ps 2 --workers 2 --threads 1 "${program[@]}" >"$out/log" 2>&1
  got=$?
  [ $got = "$code" ] || fail "run $i of a short program (${program[*]}): exit code $got"
done

# A running program has its own name, not that of the link that leads to it.
"$build/actor-node" up bash -c 'for pid in "$TROUPE_RUN_DIR"/*.pid; do
  until grep -qz join "/proc/$(<"$pid")/cmdline"; do :; done
  tr "\0" " " <"/proc/$(<"$pid")/cmdline"; echo; cat "/proc/$(<"$pid")/comm"; done' >"$out/log" 2>&1
[ "$(grep -cx 'actor-node' "$out/log")$(grep -c '^actor-node join' "$out/log")" = 22 ] || fail 'nodes go by another name'

# Each start of a node has a larger number than the last one, also within a tick of the clock.
"$build/actor-node" up --run-dir "$out/numbers" bash -c '
  number() { tr "\\0" "\n" <"/proc/$1/cmdline" | grep -A1 -x -- --incarnation | tail -n 1; }
  pid=$(cat "$0/worker-0.pid")
  until first=$(number "$pid") && [ -n "$first" ]; do :; done
  kill -9 "$pid"
  until next=$(cat "$0/worker-0.pid") && [ "$next" != "$pid" ] && second=$(number "$next") && [ -n "$second" ]; do :; done
  echo "$first $second"
  [ "$second" -gt "$first" ]' "$out/numbers" >"$out/log" 2>&1 || fail 'a later start of a node has no larger number'

# Nobody takes the port of a node that is down, and who dials it waits for the next start.
"$build/actor-node" up --run-dir "$out/port" bash -c '
  address=$(sed -n "s/^worker = //p" "$0/cluster.spec")
  for i in 1 2 3; do
    pid=$(cat "$0/worker-0.pid")
    kill -9 "$pid"
    while [ -e "/proc/$pid/fd/0" ]; do :; done
    exec 3<>"/dev/tcp/${address%:*}/${address#*:}" || exit 3
    exec 3>&-
    "$1" join --job worker --task 9 --listen "$address" 2>"$0/taker" && exit 4
    grep -q "the port is in use" "$0/taker" || exit 5
    until next=$(cat "$0/worker-0.pid") && [ "$next" != "$pid" ]; do :; done
  done' "$out/port" "$build/actor-node" >"$out/log" 2>&1 || fail "a port of a node that is down: exit code $?"

# A frozen node is named, killed and started again; the weights are those of an undisturbed run.
for job in worker ps; do
  : >"$out/log"  # the log of the run before may hold the awaited lines
  "$build/actor-node" up --ps 2 --workers 2 --threads 1 --frozen-after 2 --run-dir "$out/run-$job" \
    "$build/train_digits" --digits "$data" --steps 200 --out "$out/$job" --verify >"$out/log" 2>&1 &
  up=$!
  wait_for 30 grep -q 'sync step [1-9]' "$out/log" || { kill $up; fail "$job: the training did not begin"; }
  kill -STOP "$(cat "$out/run-$job/$job-0.pid")"
  wait $up || fail "frozen $job: exit code $?"
  grep -q "/job:$job/task:0 .* is frozen: silent for .* noticed by its supervisor .*kill -9" "$out/log" ||
    fail "frozen $job: the supervisor did not say so"
  grep -q "/job:$job/task:0 .* was ended by signal 9 .* starts it again .* (restart 1 of 5)" "$out/log" ||
    fail "frozen $job: not started again"
  grep -q "/job:$job/task:0.* is gone" "$out/log" || fail "frozen $job: the master did not say so"
  grep -q 'equal, to the bit' "$out/log" || fail "frozen $job: the weights differ"
done

# A program that crashes is named, with its signal.
timeout 30 "$build/actor-node" up bash -c 'kill -SEGV $$' >"$out/log" 2>&1
[ $? = 139 ] || fail 'a crashed program: not 128 + 11'
grep -q 'bash was ended by signal 11 (Segmentation fault)' "$out/log" || fail 'a crashed program was not named'

# A stopped program ends with its supervisor: after SIGTERM, and after a kill of the supervisor.
is_stopped() { grep -q '^State:.T' "/proc/$(<"$out/pid")/status"; }
has_ended() { ! grep -q '^State:.[^ZX]' "/proc/$1/status"; }
for signal in TERM KILL; do
  rm -f "$out/pid"
  "$build/actor-node" up --run-dir "$out/stopped" bash -c 'echo $$ >"$0"; kill -STOP $$' "$out/pid" >"$out/log" 2>&1 &
  up=$!
  wait_for 20 is_stopped || { kill $up; fail 'the program did not stop itself'; }
  kill -$signal $up
  wait_for 5 has_ended $up && wait_for 5 has_ended "$(<"$out/pid")" || fail "SIG$signal: the stopped program is still there"
  wait $up 2>/dev/null
  code=$?
  [ $signal = KILL ] || [ $code = 143 ] || fail "SIGTERM, with a stopped program: exit code $code"
done

# Processes that a program has started end with the supervisor: when the program has ended, after
# SIGTERM, and in any state or group.
for how in ends TERM; do
  rm -f "$out/pid-"*
  timeout 40 "$build/actor-node" up --threads 1 bash -c '
    (setsid bash -c "echo \$\$ >$0-own; exec sleep 1000" &)
    (bash -c "echo \$\$ >$0-stopped; kill -STOP \$\$" &)
    until [ -s "$0-own" ] && [ -s "$0-stopped" ] && grep -q "^State:.T" "/proc/$(<"$0-stopped")/status"; do read -rt 0.02 <> <(:); done
    [ $1 = ends ] || { kill -$1 $PPID; sleep 1000; }' "$out/pid" $how >"$out/log" 2>&1
  code=$?
  [ $code = $([ $how = ends ] && echo 0 || echo 143) ] || fail "with processes that a program has left ($how): exit code $code"
  for file in "$out/pid-own" "$out/pid-stopped"; do has_ended "$(<"$file")" 2>/dev/null || fail "$how: a process of the program is left"; done
done

# A process that was there before stays: one that a script has started before it became the supervisor.
timeout 40 bash -c 'sleep 1000 >/dev/null & echo $! >"$1/before"; exec "$2" up --threads 1 true' _ "$out" "$build/actor-node" >"$out/log" 2>&1 ||
  fail "with a process from before: exit code $?"
pids+=("$(<"$out/before")")
kill -0 "$(<"$out/before")" || fail 'a process from before the supervisor is gone'

# The next supervisor removes the temporary folder of one that was killed, and no other.
"$build/actor-node" up bash -c 'echo "$TROUPE_RUN_DIR" >"$0"; exec sleep 1000' "$out/live" &
live=$!
pids+=("$live")
"$build/actor-node" up bash -c 'echo "$TROUPE_RUN_DIR" >"$0"; kill -9 $PPID' "$out/dead" 2>/dev/null
timeout 60 "$build/actor-node" up --restarts 0 bash -c '
  until [ -s "$TROUPE_RUN_DIR/worker-0.pid" ]; do read -rt 0.02 <> <(:); done
  echo "$TROUPE_RUN_DIR" >"$0"; kill -9 "$(<"$TROUPE_RUN_DIR/worker-0.pid")"; sleep 1000' "$out/kept" >"$out/log" 2>&1  # its logs are to be looked at
wait_for 20 [ -s "$out/live" ] || fail 'a supervisor did not begin'
mkdir "$TMPDIR/troupe-other"
timeout 20 "$build/actor-node" up true >"$out/log" 2>&1
[ ! -e "$(<"$out/dead")" ] || fail 'the folder of a killed supervisor is left'
[ -e "$(<"$out/live")/cluster.spec" ] && [ -e "$(<"$out/kept")/cluster.spec" ] && [ -e "$TMPDIR/troupe-other" ] || fail 'a folder in use is gone'
kill $live
wait $live
rm -r "$(<"$out/kept")" "$TMPDIR/troupe-other"

# A program gets the signal that stops its supervisor, and the signal ends both.
declare -A codes=([INT]=130 [HUP]=129 [TERM]=143)
for signal in INT HUP TERM; do
  : >"$out/log"  # as above
  "$build/actor-node" up --threads 1 "$build/train_digits" --digits "$data" --steps 100000 --out "$out/by-$signal" >"$out/log" 2>&1 &
  up=$!
  wait_for 30 grep -q '^sync step [1-9]' "$out/log" || { kill $up; fail "SIG$signal: the training did not begin"; }
  kill -$signal $up
  wait $up
  code=$?
  [ $code = "${codes[$signal]}" ] || fail "SIG$signal: exit code $code"
  grep -q "^stopped by SIG$signal; checkpoints" "$out/log" || fail "SIG$signal: the program did not name it"
done
# Ctrl-C at a terminal reaches a program once: from the terminal. The test stops the supervisor
# until the program has handled the signal, so that a second one would count. It signals the nodes
# last, since the program waits for their end.
cat >"$out/counts" <<'PROGRAM'
n=0
trap 'n=$((n + 1)); echo >"$0.heard"' INT
echo $PPID >"$0.ready"
until [ $n -gt 0 ] && ! ls "$TROUPE_RUN_DIR"/*.pid; do read -rt 0.02 <> <(:); done
exit $n
PROGRAM
mkfifo "$out/keys"
timeout 60 script -qfc "trap : INT; $build/actor-node up --threads 1 --run-dir $out/terminal bash $out/counts; echo \$? >$out/code" \
  /dev/null <"$out/keys" >"$out/log" 2>&1 &
terminal=$!
pids+=("$terminal")
exec 3>"$out/keys"
wait_for 20 [ -s "$out/counts.ready" ] || fail 'the program at a terminal did not begin'
up=$(<"$out/counts.ready")
kill -STOP "$up"
wait_for 20 grep -q '^State:.T' "/proc/$up/status" || fail 'the supervisor at a terminal does not stop'
printf '\x03' >&3
wait_for 20 [ -e "$out/counts.heard" ] || fail 'the program did not hear of Ctrl-C'
kill -CONT "$up"
wait $terminal
exec 3>&-
[ "$(<"$out/code")" = 1 ] || fail "Ctrl-C at a terminal: the program heard of it $(<"$out/code") times"
# Under nohup the end of a terminal has no effect on the supervisor or the program.
(trap '' HUP && exec "$build/actor-node" up bash -c '
  for pid in $$ $PPID; do (($((0x$(sed -n "s/^SigIgn:\t//p" /proc/$pid/status))) & 1)) || exit 3; done') >"$out/log" 2>&1 ||
  fail "under nohup: exit code $?"

# A node that dies repeatedly is restarted with growing delays, and then ends the cluster with 69.
began=${EPOCHREALTIME/[.,]/}
timeout 60 "$build/actor-node" up --run-dir "$out/dying" bash -c '
  while :; do kill -9 "$(cat "$0/worker-0.pid")"; read -rt 0.02 <> <(:); done 2>/dev/null' "$out/dying" >"$out/log" 2>&1
code=$?
took=$(((${EPOCHREALTIME/[.,]/} - began) / 1000))
[ $code = 69 ] || fail "a node that dies too often: exit code $code"
pauses=$(sed -n 's|.*/job:worker/task:0 .* starts it again in \([0-9]*\) ms (restart \([0-9]\) of 5)$|\2:\1|p' "$out/log")
[ "${pauses//$'\n'/ }" = '1:100 2:200 3:400 4:800 5:1600' ] || fail "pauses before restarts: $pauses"
[ $took -ge 3100 ] || fail "five restarts and a last death within $took ms"
grep -q 'the 6th time in 60 s: giving up. Its log: ' "$out/log" || fail 'the supervisor did not say that it gives up'

# The number of restarts is the user's, and so is the time in which they count.
for restarts in 0 1; do
  timeout 60 "$build/actor-node" up --restarts $restarts --restarts-within 90 --run-dir "$out/few" bash -c '
    until grep -q listening "$0/worker-0.log"; do :; done
    while :; do kill -9 "$(cat "$0/worker-0.pid")"; read -rt 0.02 <> <(:); done 2>/dev/null' "$out/few" >"$out/log" 2>&1
  code=$?
  [ $code = 69 ] || fail "$restarts restarts: exit code $code"
  [ "$(grep -c 'starts it again' "$out/log")" = $restarts ] || fail "not $restarts restarts"
  grep -q "the $([ $restarts = 0 ] && echo 1st || echo 2nd) time in 90 s: giving up. Its log: .*/worker-0.log, which ends with: ." "$out/log" || fail "$restarts restarts: not said"
done
timeout 60 "$build/actor-node" up --restarts 1 --restarts-within 1 --run-dir "$out/few" bash -c '
  for n in 1 2 3; do
    pid=$(cat "$0/worker-0.pid")
    kill -9 "$pid"
    until next=$(cat "$0/worker-0.pid") && [ "$next" != "$pid" ]; do read -rt 0.02 <> <(:); done
    read -rt 1.2 <> <(:)
  done; exit 3' "$out/few" >"$out/log" 2>&1
code=$?
[ $code = 3 ] || fail "restarts that are more than a second apart: exit code $code"

# A node with a file of its name that ends in .away is not started; its end is no death. A file that
# an earlier run has left means nothing.
mkdir "$out/away" && : >"$out/away/worker-0.away"
timeout 60 "$build/actor-node" up --workers 2 --restarts 0 --run-dir "$out/away" bash -c '
  pid=$(cat "$0/worker-1.pid")
  : >"$0/worker-1.away"
  kill -TERM "$pid"
  while [ -e "$0/worker-1.pid" ]; do read -rt 0.02 <> <(:); done
  read -rt 0.6 <> <(:)
  [ ! -e "$0/worker-1.pid" ] || exit 4
  rm "$0/worker-1.away"
  until [ -s "$0/worker-1.pid" ]; do read -rt 0.02 <> <(:); done
  exit 0' "$out/away" >"$out/log" 2>&1
code=$?
[ $code = 0 ] || fail "a node that is away: exit code $code"
grep -q "/job:worker/task:1 .* ended by signal 15 .*\|/job:worker/task:1 .* exited with code 0; it stays away while .*/worker-1.away is there" "$out/log" ||
  fail 'a node that is away was not named'

# A node is dialled at the address that it announces: here a relay of one connection that leads
# nowhere. The files say where others dial, and where nodes listen.
timeout 60 "$build/actor-node" up --announce worker/0=127.0.0.1:1 --run-dir "$out/relay" bash -c '
  until grep -q "peer up: peer=/job:ps/task:0" "$0/worker-0.log"; do read -rt 0.02 <> <(:); done
  grep "peer up" "$0/ps-0.log"; echo "$TROUPE_CLUSTER"' "$out/relay" >"$out/log" 2>&1 || fail "a node behind a relay: exit code $?"
grep -q 'peer up: peer=/job:worker/task:0 address=127.0.0.1:1 ' "$out/log" || fail 'the announced address is not known to others'
grep -qE '^127.0.0.1:[0-9]+,127.0.0.1:1$' "$out/log" || fail 'TROUPE_CLUSTER has not the announced address'
grep -qx 'worker = 127.0.0.1:1' "$out/relay/cluster.spec" || fail 'cluster.spec has not the announced address'
grep -qE '^worker = 127.0.0.1:[0-9]{2,}$' "$out/relay/listen.spec" || fail 'listen.spec has not the address of the node'
for wrong in worker/0 worker/7=127.0.0.1:1 =127.0.0.1:1; do
  timeout 20 "$build/actor-node" up --announce $wrong true >"$out/log" 2>&1
  code=$?
  [ $code = 64 ] && grep -q -- --announce "$out/log" || fail "--announce $wrong: exit code $code"
done

# A node that ends with 78 is not started again: the reason is said at once. The hard limit lets a
# supervisor start, and no node.
for format in text json; do
  began=${EPOCHREALTIME/[.,]/}
  timeout 60 "$build/actor-node" up --log-format $format --run-dir "$out/unfit" bash -c '
    pid=$(cat "$0/worker-0.pid")
    prlimit --pid $PPID --nofile=40:40 || exit 4
    kill -9 "$pid"
    sleep 20' "$out/unfit" >"$out/log" 2>&1
  code=$?
  took=$(((${EPOCHREALTIME/[.,]/} - began) / 1000))
  [ $code = 78 ] || fail "a node that cannot run: exit code $code"
  [ $took -lt 10000 ] || fail "a node that cannot run: known after $took ms"
  grep -q 'exited with code 78; no restart helps: the limits of this process allow it 40 open files .*(ulimit -n).*\. Its log: ' "$out/log" ||
    fail 'a node that cannot run: the reason is not said'
done

# The supervisor goes on if nobody reads its lines: a pager at its first page, a terminal after
# Ctrl-S. The program fills the pipe, which the test holds open.
mkfifo "$out/unread"
exec 3<>"$out/unread"
timeout 60 "$build/actor-node" up --run-dir "$out/unread-run" bash -c '
  restarts() {
    pid=$(cat "$0/worker-0.pid")
    kill -9 "$pid"
    until [ -s "$0/worker-0.pid" ] && [ "$(cat "$0/worker-0.pid")" != "$pid" ]; do read -rt 0.02 <> <(:); done
  }
  timeout 2 cat /dev/zero >&2
  restarts 2>"$0/errors"; restarts 2>"$0/errors"
  echo restarted >"$0/done"' "$out/unread-run" 2>&3 &
up=$!
wait_for 20 [ -s "$out/unread-run/done" ]
restarted=$?
timeout 1 cat <&3 | tr -d '\000' >"$out/log"
wait $up
code=$?
exec 3<&-
[ $restarted = 0 ] && [ $code = 0 ] || fail "with output that nobody reads: exit code $code, restarted: $restarted"
grep -qxE 'actor-node: standard error took no more: (1 line is|2 lines are) left out here' "$out/log" || fail 'lines that were left out are not counted'

# The reader of its lines ends.
timeout 60 "$build/actor-node" up --run-dir "$out/closed" bash -c '
  pid=$(cat "$0/worker-0.pid")
  kill -9 "$pid"
  until [ -s "$0/worker-0.pid" ] && [ "$(cat "$0/worker-0.pid")" != "$pid" ]; do read -rt 0.02 <> <(:); done
  exit 0' "$out/closed" 2> >(exec true)
code=$?
[ $code = 0 ] || fail "without a reader of its lines: exit code $code"

# The run folder is removed: the restarted node has a log and a pid file again.
"$build/actor-node" up --run-dir "$out/gone" bash -c '
  pid=$(cat "$0/worker-0.pid")
  rm -r "$0"
  kill -9 "$pid"
  until [ -s "$0/worker-0.log" ] && [ -s "$0/worker-0.pid" ]; do read -rt 0.02 <> <(:); done
  exit 0' "$out/gone" >"$out/log" 2>&1 ||
  fail "without its run folder: exit code $?"
grep -q 'was removed; made it anew' "$out/log" || fail 'nobody said that the run folder was removed'

[ -z "$(ls -A "$TMPDIR")" ] || fail 'files left in TMPDIR'
echo "short and stopped programs end at once; frozen worker and ps restarted with equal weights; crash, too many deaths and a lost run folder named"
