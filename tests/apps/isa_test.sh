#!/usr/bin/env bash
# Runs all tests of ops with each instruction set of this machine; one that it lacks is refused.
# Argument: the build folder.
# slow
set -euo pipefail
# shellcheck source=tests/support/app_test.sh
source "$(dirname "${BASH_SOURCE[0]}")/../support/app_test.sh"

try() {  # ISA
  local log=$out/$1.log
  TROUPE_ISA=$1 "$build/troupe" doctor >"$log"
  grep -q "our kernels use $1;" "$log" || fail "TROUPE_ISA=$1 is not what is used"
  TROUPE_ISA=$1 "$build/tests/test_ops" >"$log" 2>&1 || fail "the ops fail with $1"
  TROUPE_ISA=$1 "$build/tests/test_devices" --test-case='*loop*' >"$log" 2>&1 || fail "loops fail with $1"
  TROUPE_ISA=$1 "$build/tests/test_training" --source-file='*optimizer_t*' >"$log" 2>&1 || fail "optimizers fail with $1"
}
tried=''
for isa in $("$build/troupe" doctor | sed -n 's/.*there are \(.*\) (.*/\1/p' | tr -d ,); do
  try "$isa" &
  pids+=($!)
  tried="$tried $isa"
done
for pid in "${pids[@]}"; do wait "$pid" || exit 1; done
pids=()
[ -n "$tried" ] || fail 'doctor names no instruction set'
code=0
TROUPE_ISA=mmx "$build/troupe" doctor >"$out/log" 2>&1 || code=$?
[ "$code" = 78 ] && grep -q 'unknown instruction set "mmx"' "$out/log" || fail "an unknown instruction set: exit code $code"
code=0
TROUPE_ISA=mmx "$build/train_digits" --digits "$data" --out "$out/x" >"$out/log" 2>&1 || code=$?
[ "$code" = 78 ] && grep -q 'TROUPE_ISA' "$out/log" || fail "a program with an unknown instruction set: exit code $code"

# The table of ops.
"$build/troupe" ops >"$out/ops"
grep -q '^MatMul  *a b  *c  *transpose_a? transpose_b?  *f32 f64 i32 i64 bf16 f16  *cpu.*yes$' "$out/ops" || fail 'MatMul is not in the table as it is'
grep -q '^Equal .*no: ' "$out/ops" || fail 'why Equal has no gradient is not said'
"$build/troupe" ops bandp >"$out/log" && grep -q '^1 ops;' "$out/log" || fail 'a part of a name does not find the op'
code=0
"$build/troupe" ops nothing-is-called-so >"$out/log" 2>&1 || code=$?
[ "$code" = 64 ] || fail "an op that is none: exit code $code"
code=0
"$build/troupe" fly >"$out/log" 2>&1 || code=$?
[ "$code" = 64 ] && grep -q 'unknown verb' "$out/log" || fail "an unknown verb: exit code $code"
code=0
"$build/troupe" ops >/dev/full 2>"$out/log" || code=$?
[ "$code" = 74 ] || fail "a table that cannot be written: exit code $code"
echo "the ops with$tried; $(tail -n 1 "$out/ops" | cut -d';' -f1) in the table"
