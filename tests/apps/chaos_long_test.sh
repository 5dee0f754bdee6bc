#!/usr/bin/env bash
# Faults of a drawn schedule strike a training every 4 s, also the program: the weights are those of
# an undisturbed run, and no process leaks. Argument: the build folder.
# slow
set -uo pipefail
# shellcheck source=tests/support/app_test.sh
source "$(dirname "${BASH_SOURCE[0]}")/../support/app_test.sh"
export TMPDIR=$out/tmp
mkdir "$TMPDIR"
disk=()
if unshare -m true 2>/dev/null || unshare -Um true 2>/dev/null; then disk=(--disk "$out/small"); fi
timeout 200 "$build/troupe" chaos --ps 2 --workers 2 --threads 1 --seed 11 --every 4s --for 45s --kill-program --check-leaks \
  "${disk[@]}" --run-dir "$out/run" "$build/train_digits" --digits "$data" --steps 9000 --out "$out/small/digits" --verify >"$out/log" 2>&1
code=$?
[ $code = 0 ] || fail "exit code $code"
grep -q 'equal, to the bit' "$out/log" || fail 'other weights'
grep -qE '^chaos: no leak in [0-9]+ processes' "$out/log" || fail 'leaks are not looked for'
counts=$(sed -n 's/^chaos: \([0-9]*\) faults, \([0-9]*\) repaired, .*/\1 \2/p' "$out/log")
read -r faults repaired <<<"$counts"
[ "${faults:-0}" -ge 10 ] && [ "$repaired" -ge $((faults / 2)) ] || fail "faults, repaired: $counts"
[ -z "$(ls -A "$TMPDIR")" ] || fail 'files left in TMPDIR'
echo "$faults faults, $repaired repaired, equal weights, no leak"
