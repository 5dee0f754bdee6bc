#!/usr/bin/env bash
# Fail points of real processes: a ps that dies between an update and its acknowledgement changes no
# bit, and text that means nothing is refused. Argument: the build folder.
set -uo pipefail
# shellcheck source=tests/support/app_test.sh
source "$(dirname "${BASH_SOURCE[0]}")/../support/app_test.sh"
node=$build/actor-node
unset TROUPE_FAILPOINTS

expect 64 'did you mean shard.apply.before_ack?' "$node" join --failpoints shard.aply.before_ack=die
expect 64 'did you mean link.frame?' "$node" up --failpoints link.frme=drop true
expect 64 'no fail point is called' env TROUPE_FAILPOINTS=whatever=die "$node" up true
expect 64 'is no fail point; say' "$build/train_digits" --digits "$data" --out "$out/x" --failpoints link.up
expect 64 'has no action drop' env TROUPE_FAILPOINTS=link.up=drop "$build/train_digits" --digits "$data" --out "$out/x"
for program in "$node join" "$node up" "$build/train_digits"; do
  # shellcheck disable=SC2086  # a program and its verb
  [ "$($program --failpoints list | grep -c '^[a-z_.]* .* (die, sleep:MILLISECONDS')" -ge 30 ] || fail "no list by $program"
done
[ $failures = 0 ] || fail "$failures of $tried checks of texts"

train() {  # NAME [FLAGS OF up]
  local name=$1
  shift
  "$node" up --ps 1 --workers 1 --threads 1 "$@" "$build/train_digits" --digits "$data" --steps 60 --out "$out/$name" \
    >"$out/$name.log" 2>&1 || fail "the training $name ended with code $?"
  sync_hash "$out/$name.log"
}
calm=$(train calm)
[ -n "$calm" ] || fail 'a training without faults says no weights'
killed=$(train killed --failpoints ps0/shard.apply.before_ack=die@200)
[ "$killed" = "$calm" ] || fail "other weights after a death at a fail point: $killed, not $calm"
grep -q '/job:ps/task:0 (pid [0-9]*) was ended by signal 9' "$out/killed.log" || fail 'no ps died at its fail point'
grep -q 'restart 2 of' "$out/killed.log" && fail 'a ps that was started again had fail points'
echo 'texts of fail points are checked; a ps that died at one changed no bit'
