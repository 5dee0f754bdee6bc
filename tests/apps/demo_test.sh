#!/usr/bin/env bash
# A short demo as a user runs it: a cluster of processes trains on the digits; a worker, then a
# parameter server, is killed half way. The output says so within 2 s, and has progress and tables.
# The synchronous weights equal an undisturbed run's to the bit; no process and no file is left.
# Argument: the build folder.
set -euo pipefail
# shellcheck source=tests/support/app_test.sh
source "$(dirname "${BASH_SOURCE[0]}")/../support/app_test.sh"
export TMPDIR=$out/tmp
mkdir "$TMPDIR"

stamped() { while IFS= read -r line; do printf '%s %s\n' "$EPOCHREALTIME" "$line"; done; }

# Seconds from each `kill -9` to the first line with TEXT about that job, as it leaves the pipe; -1
# if there is none.
delays() {  # JOB TEXT
  awk -v who="/job:$1/task:0" -v text="$2" '
    function close_one() { if (killed) print seen ? seen : -1 }
    / demo: kill -9 / { close_one(); killed = $1; seen = 0; next }
    killed && !seen && index($0, who) && index($0, text) { seen = $1 - killed + 0.000001 }
    END { close_one() }' "$out/stamped"
}

expect_line() {  # WHAT REGEX: a whole line of the log
  grep -qE "^$2\$" "$out/log" || fail "kill $kill: no $1: $2"
}

# Step, loss, examples per second and the time left, in plain lines, since the output is not a
# terminal.
check_progress() {
  local rule form='[0-9]+/120  loss [0-9]+\.[0-9]+  [0-9]+ examples/s  ETA [0-9]+ s'
  for rule in sync async; do expect_line 'progress' "$rule step $form"; done
  if grep -E '^a?sync step ' "$out/log" | grep -vE "^a?sync step $form\$"; then fail "kill $kill: another progress line"; fi
}

# The parts of the network and their devices, and the location of each slice of the parameters.
check_tables() {
  local i
  for i in 0 1; do
    expect_line 'nodes of a worker' "  /job:worker/task:$i/device:cpu:0 +[0-9]+  tower$i +conv1 [0-9]+, conv2 [0-9]+, fc1 [0-9]+, fc2 [0-9]+, .*"
    expect_line 'nodes of a ps' "  /job:ps/task:$i/device:cpu:0 +0 +parameters only"
    grep -q "label=\"/job:worker/task:$i/device:cpu:0\"" "$out/$kill/graph.dot" || fail "kill $kill: worker $i is not in the graph"
  done
  awk '/^Where the nodes/ { on = 1 } /^$/ { on = 0 } on && length > 100 { print; wide = 1 } END { exit wide }' "$out/log" ||
    fail "kill $kill: the table of nodes has more than 100 columns"
  awk '/^Where the parameters/ { on = 1 } /^$/ { on = 0 } on && $NF ~ "^/job:ps/task:[01]$" { ++rows; from[$1] += $2; size[$1] += $3; bytes += $4; shards[$NF] }
    END { exit !(rows == 9 && length(size) == 8 && length(shards) == 2 && size["conv1/b"] == 16 && size["conv1/w"] == 144 &&
      size["conv2/b"] == 32 && size["conv2/w"] == 4608 && size["fc1/b"] == 64 && size["fc1/w"] == 32768 &&
      from["fc1/w"] == 16384 && size["fc2/b"] == 10 && size["fc2/w"] == 640 && bytes == 4 * 38282) }' "$out/log" ||
    fail "kill $kill: the table of parameters is not whole"
}

slowest=0
for kill in none worker ps; do
  args=(--digits "$data" --steps 120 --out "$out/$kill" --verify)
  [ "$kill" = none ] || args+=(--kill "$kill")
  timeout 90 "$build/actor-node" up --ps 2 --workers 2 --threads 1 "$build/train_digits" "${args[@]}" 2>&1 | stamped \
    >"$out/stamped" || fail "kill $kill: exit code $?"
  cut -d ' ' -f 2- "$out/stamped" >"$out/log"
  grep -q 'equal, to the bit' "$out/log" || fail "kill $kill: the weights differ"
  [ -s "$out/$kill/trace.json" ] && [ -s "$out/$kill/graph.dot" ] || fail "kill $kill: no trace or graph"
  check_progress
  check_tables
  sync_hash "$out/log" >>"$out/hashes"
  if [ "$kill" != none ]; then
    # The death and the remedy are reported by the supervisor, which restarts the process, and by
    # the training master.
    for text in 'ended by signal 9' 'noticed by its supervisor' 'starts it again' 'is gone' 'noticed by the master'; do
      seen=$(delays "$kill" "$text")
      [ "$(wc -l <<<"$seen")" = 2 ] || fail "kill $kill: two halves, but $(wc -l <<<"$seen") kills"
      while read -r seconds; do
        awk -v s="$seconds" 'BEGIN { exit !(s >= 0 && s <= 2) }' || fail "kill $kill: \"$text\" came after $seconds s"
        slowest=$(awk -v a="$slowest" -v b="$seconds" 'BEGIN { print (a > b ? a : b) }')
      done <<<"$seen"
    done
  fi
  [ -z "$(ls -A "$TMPDIR")" ] || fail "kill $kill: files left in TMPDIR"
done
[ "$(sort -u "$out/hashes" | wc -l)" = 1 ] || fail "the three runs ended with different weights"
echo "weights after no kill, a killed worker and a killed ps: $(head -c 16 "$out/hashes"), equal; said after $slowest s at most"
