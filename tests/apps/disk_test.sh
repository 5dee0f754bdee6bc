#!/usr/bin/env bash
# A full disk. Missed pictures and traces are reported, and the training goes on; checkpoints that
# cannot be written are reported. The second half needs root, for a tiny file system. Argument: the
# build folder.
# slow
set -uo pipefail
# shellcheck source=tests/support/app_test.sh
source "$(dirname "${BASH_SOURCE[0]}")/../support/app_test.sh"

train() { timeout 60 "$build/train_digits" --digits "$data" --steps 20 "$@" >"$out/log" 2>&1; }

# No room for the picture and the trace, on which nothing depends; those of an earlier training stay.
mkdir "$out/extras"
echo earlier >"$out/extras/graph.dot"
ln -s /dev/full "$out/extras/graph.dot.part"
ln -s /dev/full "$out/extras/trace.json.part"
train --out "$out/extras" || fail "a picture that cannot be written ended the demo with exit code $?"
grep -q 'warning: cannot write .*graph.dot: No space left on device' "$out/log" || fail 'the picture was not mentioned'
grep -q 'warning: cannot write .*trace.json: No space left on device' "$out/log" || fail 'the trace was not mentioned'
grep -q '^placed graph (Graphviz): not written' "$out/log" || fail 'the closing lines name a picture'
[ "$(<"$out/extras/graph.dot")" = earlier ] || fail 'the earlier picture is gone'

# --out cannot be made: reported before any training.
train --out /proc/none/out
[ $? = 74 ] || fail 'an impossible --out'
! grep -q 'sync step' "$out/log" || fail 'trained before looking at --out'

mkdir "$out/disk"
if ! mount -t tmpfs -o size=256k troupe-test "$out/disk" 2>/dev/null; then
  echo 'skipped: no right to mount a small file system, so only extras were tried'
  exit 77
fi
# Room for folders only: no checkpoint can be written, not even the last one, which was requested.
head -c 240k /dev/zero >"$out/disk/ballast"
timeout 60 "$build/actor-node" up --ps 1 --workers 1 --threads 1 --run-dir "$out/disk/run" "$build/train_digits" \
  --digits "$data" --steps 20 --patience 2 --out "$out/disk/out" >"$out/log" 2>&1
code=$?
[ $code = 74 ] || fail "no room for checkpoints: exit code $code"
grep -q 'checkpoint.*\(no room\|No space left on device\)' "$out/log" || fail 'the checkpoints were not mentioned'
grep -q 'sync step 20/20' "$out/log" || fail 'a checkpoint on the way ended the training'
[ "$(grep -c 'could not be written.*make room in the folder' "$out/log")" = 2 ] || fail 'no remedy, or many'
[ "$(grep -c 'steps in .* weights sha256' "$out/log")" = 2 ] || fail 'a training ended without its result'
grep -q '^train_digits: all steps are done, but the checkpoint of the last one' "$out/log" || fail 'no reason at the end'
[ "$(find "$out/disk/out" -name '*.manifest.json' | wc -l)" = 0 ] || fail 'half a checkpoint was left'
echo "a full disk cost pictures and checkpoints, and each was named; the training ran to its end"
