#!/usr/bin/env bash
# The digits on a cluster by an asynchronous rule, with a record: the order of updates, repeated on a
# cluster and in one process, gives the same weights to the bit, also of runs that lost a worker or a
# parameter server. A record that is damaged, or of another training, is refused. Argument: the build
# folder.
# slow
set -euo pipefail
# shellcheck source=tests/support/app_test.sh
source "$(dirname "${BASH_SOURCE[0]}")/../support/app_test.sh"
small=(--digits "$data" --hidden 32)  # each parameter is one slice, on any number of ps

on_cluster() {  # NAME ARGS...: on 2 ps and 2 workers; the log is in $out/NAME.log
  timeout 110 "$build/actor-node" up --ps 2 --workers 2 --threads 1 "$build/train_digits" "${small[@]}" \
    --steps "${steps:-120}" --out "$out/$1" "${@:2}" >"$out/$1.log" 2>&1 || fail "$1: exit code $?"
}
alone() {  # the same in one process
  timeout 110 "$build/train_digits" "${small[@]}" --steps 120 --out "$out/$1" "${@:2}" >"$out/$1.log" 2>&1 || fail "$1: exit code $?"
}
hash_of() { grep 'weights sha256' "$out/$1.log" | sed 's/.*sha256 \([0-9a-f]*\).*/\1/'; }
same() {
  if [ -z "$(hash_of "$1")" ] || [ "$(hash_of "$1")" != "$(hash_of "$2")" ]; then fail "$1 and $2 have other weights"; fi
}

for rule in async sync-backup:1; do
  on_cluster "$rule" --rule "$rule" --record "$out/record-$rule"
  on_cluster "again-$rule" --rule "$rule" --replay "$out/record-$rule"
  alone "alone-$rule" --rule "$rule" --replay "$out/record-$rule"
  same "$rule" "again-$rule"
  same "$rule" "alone-$rule"
done
for dead in worker ps; do
  on_cluster "killed-$dead" --rule ssp:2 --kill "$dead" --record "$out/record-$dead"
  grep -q 'demo: kill -9' "$out/killed-$dead.log" || fail "no $dead was killed"
  alone "after-$dead" --rule ssp:2 --replay "$out/record-$dead"
  same "killed-$dead" "after-$dead"
done
for dead in worker ps; do  # a replay that loses a process
  on_cluster "again-without-$dead" --rule async --kill "$dead" --replay "$out/record-async"
  same async "again-without-$dead"
done
on_cluster switched --switch 30=async,70=sync-backup:1,90=ssp-damped:1 --record "$out/record-switched"
alone switched-alone --switch 30=async,70=sync-backup:1,90=ssp-damped:1 --replay "$out/record-switched"
same switched switched-alone
steps=48 on_cluster cut --rule async --record "$out/record-cut"
on_cluster cut --rule async --resume --record "$out/record-cut"
alone cut-alone --rule async --replay "$out/record-cut"
same cut cut-alone

set +e  # expect() looks at exit codes
mkdir "$out/record-other"
cp -r "$out/record-sync-backup:1/order-sync-backup:1" "$out/record-other/order-async"
digits=("$build/train_digits" "${small[@]}" --out "$out/bad" --rule async --steps)
expect 64 'has a record already' "${digits[@]}" 120 --record "$out/record-async"
expect 78 'the number of steps, 120 in the record and 60 here' "${digits[@]}" 60 --replay "$out/record-async"
expect 78 'the number of replicas, "2" in the record and "3" here' "${digits[@]}" 120 --replicas 3 --replay "$out/record-async"
expect 78 'begins with the rule sync-backup:1' "${digits[@]}" 120 --replay "$out/record-other"
files=("$out"/record-async/order-async/part-*.shard-0-of-2.record)
file=${files[0]}
printf '\xff' | dd of="$file" bs=1 seek=$(($(stat -c %s "$file") / 2)) conv=notrunc status=none
expect 65 'shard-0-of-2.record: byte .*: expected a chunk with the crc32c' "${digits[@]}" 120 --replay "$out/record-async"
expect 0 'recorded in .*order-ssp:2: 120 steps, weights sha256 [0-9a-f]' "$build/troupe" replay "$out/record-ps" -- \
  "$build/train_digits" "${small[@]}" --out "$out/verb" --rule ssp:2 --steps 120
grep -q "weights sha256 $(hash_of killed-ps)" "$out/log" || fail 'troupe replay has other weights'
expect 64 'has no record of a training that has ended' "$build/troupe" replay "$out" -- true
expect 64 'replay wants one DIR' "$build/troupe" replay "$out"
[ "$failures" = 0 ] || exit 1
echo "the order of 6 runs, repeated: the same weights; 2 of them and 2 replays lost a process, and $tried requests were refused"
