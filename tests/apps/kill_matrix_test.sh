#!/usr/bin/env bash
# A worker, a ps, both, or the program dies at fail points, under both rules: each training ends with
# exit code 0, a synchronous one with the bits of an undisturbed one, and an asynchronous one whose
# ps dies reports the acknowledged updates that it lost. A program that died is run again with
# --resume. Argument: the build folder.
# slow
set -uo pipefail
# shellcheck source=tests/support/app_test.sh
source "$(dirname "${BASH_SOURCE[0]}")/../support/app_test.sh"
unset TROUPE_FAILPOINTS

# Each line: a fail point and at which time it is reached.
readonly of_ps='shard.push.received=die@50
shard.apply.before=die@41
shard.apply.before_ack=die@37
shard.pull.before_answer=die@60
shard.capture.held=die@2
checkpoint.shard.before_write=die@2
file.before_rename=die@2
link.frame=die@333'
readonly of_worker='client.before_send=die@45
client.acknowledged=die@39
client.pulled=die@51
client.routes.taken=die@1
agent.step.started=die@23
agent.step.ended=die@19
link.send=die@210
link.frame=die@301'
readonly of_program='master.start.sent=die@33
master.part.ended=die@29
group.epoch.drawn=die@1
group.before_routes=die@1
checkpoint.before_manifest=die@2
checkpoint.before_prune=die@2
file.before_sync_dir=die@2
link.frame=die@400'

train() {  # RULE OUT [FLAGS OF up --] [FLAGS OF THE PROGRAM]
  local rule=$1 folder=$2
  local -a of_up=()
  shift 2
  while (($# > 0)) && [ "$1" != -- ]; do of_up+=("$1") && shift; done
  shift
  timeout 120 "$build/actor-node" up --ps 2 --workers 2 --threads 1 "${of_up[@]}" "$build/train_digits" --digits "$data" \
    --steps 80 --rule "$rule" --out "$folder" "$@" >>"$out/log" 2>&1 </dev/null
}
hash_of() { grep "^$1 .*sha256" "$out/log" | tail -n 1 | sed 's/.*sha256 \([0-9a-f]*\).*/\1/'; }
deaths() { grep -c "/job:$1/task:0 (pid [0-9]*) was ended by signal 9" "$out/log"; }

try() {  # RULE VICTIM POINTS OF up, OF THE PROGRAM
  local rule=$1 victim=$2 points=$3 own=$4 code=0 lost told
  local case="$rule $victim ${points}${own}"
  : >"$out/log"
  rm -rf "$out/train"
  tried=$((tried + 1))
  if [ -n "$own" ]; then
    train "$rule" "$out/train" -- --failpoints "$own" || code=$?
    [ "$code" = 137 ] || fail "$case: the program did not die at its fail point: exit code $code"
    code=0
    train "$rule" "$out/train" -- --resume || code=$?
  else
    train "$rule" "$out/train" --failpoints "$points" -- || code=$?
  fi
  [ "$code" = 0 ] || fail "$case: exit code $code"
  case $victim in worker | both) [ "$(deaths worker)" = 1 ] || fail "$case: no worker died" ;; esac
  case $victim in ps | both) [ "$(deaths ps)" = 1 ] || fail "$case: no ps died" ;; esac
  [ "$rule" = async ] || [ "$(hash_of sync)" = "$calm" ] || fail "$case: weights $(hash_of sync), not $calm"
  # A restore under async gives up what was acknowledged after the checkpoint, and says how much.
  # The event and the table tell one number.
  if [ "$rule" = async ]; then
    lost=$(sed -n 's/.*recovered, \([0-9]*\) acknowledged updates lost).*/\1/p' "$out/log" | tail -n 1)
    told=$(grep -o '[0-9]* acknowledged steps are lost' "$out/log" | awk '{ sum += $1 } END { print sum + 0 }')
    [ "${lost:-0}" = "$told" ] || fail "$case: the table tells ${lost:-no} lost updates, the events $told"
    [ "$told" = 0 ] || counted=$((counted + 1))
  fi
}

: >"$out/log"
train sync "$out/calm" -- || fail "undisturbed: exit code $?"
calm=$(hash_of sync)
[ -n "$calm" ] || fail 'an undisturbed training says no weights'
counted=0
for rule in sync async; do
  while read -r point; do try "$rule" ps "ps0/$point" ''; done <<<"$of_ps"
  while read -r point; do try "$rule" worker "worker0/$point" ''; done <<<"$of_worker"
  while read -r first second; do try "$rule" both "ps0/$first,worker0/$second" ''; done < <(paste -d ' ' <(echo "$of_ps") <(echo "$of_worker"))
  while read -r point; do try "$rule" program '' "$point"; done <<<"$of_program"
done
[ "$counted" -gt 0 ] || fail 'no asynchronous training counted what it lost'
echo "kill matrix: $tried trainings with deaths at fail points ended well, the synchronous ones with the bits of ${calm:0:16}; $counted asynchronous ones counted a loss"
