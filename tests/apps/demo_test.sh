#!/usr/bin/env bash
# The demo as a user runs it, short: a cluster of processes trains on the digits; a worker, then a parameter server, is killed
# half way; the synchronous weights equal an undisturbed run's, to the bit; no process and no file is left. Argument: the build folder.
set -euo pipefail
build=$1
data=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../data" && pwd)/digits.csv.gz
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
export TMPDIR=$out/tmp
mkdir "$TMPDIR"

fail() {
  echo "demo_test: $1"
  cat "$out/log"
  exit 1
}

for kill in none worker ps; do
  args=(--digits "$data" --steps 120 --out "$out/$kill" --verify)
  [ "$kill" = none ] || args+=(--kill "$kill")
  timeout 90 "$build/actor-node" up --ps 2 --workers 2 --threads 1 "$build/train_digits" "${args[@]}" >"$out/log" 2>&1 ||
    fail "kill $kill: exit code $?"
  grep -q 'equal, to the bit' "$out/log" || fail "kill $kill: the weights differ"
  [ -s "$out/$kill/trace.json" ] && [ -s "$out/$kill/graph.dot" ] || fail "kill $kill: no trace or graph"
  grep '^sync .*sha256' "$out/log" | sed 's/.*sha256 \([0-9a-f]*\).*/\1/' >>"$out/hashes"
  if [ "$kill" != none ]; then
    grep -q "was killed by" "$out/log" || fail "kill $kill: the supervisor did not say who died"
    [ "$(grep -c "/job:$kill/task:0.* is gone" "$out/log")" -ge 2 ] || fail "kill $kill: the master did not say who is gone"
  fi
  [ -z "$(ls -A "$TMPDIR")" ] || fail "kill $kill: files left in TMPDIR"
done
[ "$(sort -u "$out/hashes" | wc -l)" = 1 ] || fail "the three runs ended with different weights"
echo "synchronous weights after no kill, a killed worker and a killed ps: $(head -c 16 "$out/hashes"), equal"
