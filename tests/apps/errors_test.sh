#!/usr/bin/env bash
# What a user does wrong gets one clear line and the right exit code. Argument: the build folder.
set -uo pipefail
build=$1
data=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../data" && pwd)/digits.csv.gz
out=$(mktemp -d)
pids=()
trap '[ ${#pids[@]} = 0 ] || kill "${pids[@]}" 2>/dev/null; wait 2>/dev/null; rm -rf "$out"' EXIT
failures=0

expect() {  # CODE TEXT COMMAND...
  local code=$1 text=$2
  shift 2
  timeout 60 "$@" >"$out/log" 2>&1
  local got=$?
  if [ "$got" != "$code" ] || { [ -n "$text" ] && ! grep -q -- "$text" "$out/log"; }; then
    echo "expected exit $code and \"$text\", got exit $got from: $*"
    head -n 5 "$out/log"
    failures=$((failures + 1))
  fi
}

expect 64 'unknown verb' "$build/actor-node" fly
expect 64 'no PROGRAM' "$build/actor-node" up --ps 1
expect 64 'unrecognised option' "$build/actor-node" join --job worker --colour red
expect 64 'between 1 and 64' "$build/actor-node" up --ps 0 --workers 0 true
expect 78 'insecure' "$build/actor-node" join --listen 0.0.0.0:0
expect 64 'worker or ps' "$build/train_digits" --digits "$data" --kill chief
expect 74 'nowhere.csv' "$build/train_digits" --digits "$out/nowhere.csv"
head -c 9000 "$data" >"$out/cut.csv.gz"
expect 65 'cut.csv.gz' "$build/train_digits" --digits "$out/cut.csv.gz"
printf 'a,b,label\n1,2,3\n1,x,3\n' >"$out/bad.csv"
expect 65 'bad.csv' "$build/train_digits" --digits "$out/bad.csv"
expect 74 'MNIST\|train-images' "$build/train_digits" --data "$out"
expect 3 '' "$build/actor-node" up --ps 1 --workers 0 sh -c 'exit 3'
expect 127 'cannot run' "$build/actor-node" up --ps 1 --workers 0 "$out/no-such-program"

# Two nodes at one port; a node of another cluster; a second node for the same task.
"$build/actor-node" join --job ps --task 0 --address-file "$out/address" 2>/dev/null &
pids+=($!)
for _ in $(seq 100); do [ -s "$out/address" ] && break; read -rt 0.05 <> <(:) || true; done
address=$(cat "$out/address")
expect 74 'in use' "$build/actor-node" join --job ps --task 1 --listen "$address"
expect 78 'cluster' "$build/actor-node" join --job ps --task 1 --cluster other --seed "$address"
expect 78 'task' "$build/actor-node" join --job ps --task 0 --seed "$address"

# Somebody who speaks something else is refused, and the node lives on.
exec 3<>"/dev/tcp/${address%:*}/${address##*:}"
printf 'GET / HTTP/1.1\r\nHost: x\r\n\r\n%0200d' 0 >&3
timeout 10 cat <&3 >/dev/null
exec 3>&-
kill -0 "${pids[0]}" || { echo "the node died of a stranger"; failures=$((failures + 1)); }

# SIGTERM ends a node within ten seconds, with exit code 0.
kill -TERM "${pids[0]}"
if ! timeout 10 tail --pid="${pids[0]}" -f /dev/null; then
  echo "SIGTERM did not end the node"
  failures=$((failures + 1))
fi
wait "${pids[0]}"
[ $? = 0 ] || { echo "a stopped node did not exit with 0"; failures=$((failures + 1)); }
pids=()

[ "$failures" = 0 ] || exit 1
echo "16 mistakes, each with its exit code and message"
