#!/usr/bin/env bash
# Nodes started by hand outlive programs that are killed: what each of them has left there goes after the lease, so that memory,
# threads and open files of the nodes do not grow with their number. Argument: the build folder.
# slow
set -uo pipefail
# shellcheck source=tests/support/app_test.sh
source "$(dirname "${BASH_SOURCE[0]}")/../support/app_test.sh"

expect 64 '--lease wants 0 (never) or 1 to 31536000 s' "$build/actor-node" join --lease 0.5
seed=()
for node in ps/0 worker/0; do
  name=${node/\//-}
  "$build/actor-node" join --job "${node%/*}" --task "${node#*/}" --threads 1 --lease 1 "${seed[@]}" --address-file "$out/$name" \
    >"$out/$name.log" 2>&1 &
  pids+=($!)
  wait_for 30 test -s "$out/$name" || fail "$name does not listen"
  seed=(--seed "$(cat "$out/ps-0")")
done
nodes=("${pids[@]}")

train_and_kill() {  # N: the n-th program that dies in its training
  : >"$out/train.log"
  TROUPE_CLUSTER=$(cat "$out/ps-0") TROUPE_PS=1 TROUPE_WORKERS=1 "$build/train_digits" --digits "$data" --steps 2000 \
    --hidden 1024 --out "$out/run$1" >"$out/train.log" 2>&1 &
  local program=$!
  pids+=("$program")
  wait_for 60 grep -q '^sync step' "$out/train.log" || fail "training $1 did not begin"
  kill -KILL "$program"
  wait "$program" 2>/dev/null
  for name in ps-0 worker-0; do
    wait_for 20 has_ended "$name" "$1" || fail "$name keeps session $1"
  done
}
has_ended() { [ "$(grep -c 'a session ends without its program' "$out/$1.log")" -ge "$2" ]; }
measure() {  # PID: threads and open files
  echo "$(awk '/^Threads/ {print $2}' "/proc/$1/status") $(find "/proc/$1/fd" -mindepth 1 | wc -l)"
}

median() { printf '%s\n' "$@" | sort -n | sed -n "$((($# + 1) / 2))p"; }
kb_of() { awk '/^VmRSS/ {print $2}' "/proc/$1/status"; }

# A single look at the memory moves by 10 MB with the allocator, so each figure is the median after five deaths. Fifteen lie
# between the two.
deaths=22
warm=7  # the allocator's pools have their size by then
kb_first=("" "") kb_last=("" "") first=()
for ((n = 1; n <= deaths; ++n)); do
  train_and_kill "$n"
  for i in 0 1; do
    ((n > warm - 5 && n <= warm)) && kb_first[i]+="$(kb_of "${nodes[i]}") "
    ((n > deaths - 5)) && kb_last[i]+="$(kb_of "${nodes[i]}") "
  done
  ((n == warm)) && for pid in "${nodes[@]}"; do first+=("$(measure "$pid")"); done
done
for i in 0 1; do
  read -r threads files <<<"${first[i]}"
  read -r threads2 files2 <<<"$(measure "${nodes[i]}")"
  # shellcheck disable=SC2086  # a list of numbers
  kb=$(median ${kb_first[i]}) kb2=$(median ${kb_last[i]})
  echo "around 5 and around 20 deaths: $kb and $kb2 kB, $threads and $threads2 threads, $files and $files2 open files"
  ((kb2 < kb + 8192)) || fail 'memory grows with the programs that died'
  ((threads2 <= threads && files2 <= files + 1)) || fail 'threads or open files grow with the programs that died'
done
((failures == 0))
