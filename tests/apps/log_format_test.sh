#!/usr/bin/env bash
# With --log-format=json every line on standard error, and in the logs of the nodes, is one JSON
# object: from the supervisor, the nodes and the program, in a normal run, after the death of a
# node, and after an error. Argument: the build folder.
set -uo pipefail
# shellcheck source=tests/support/app_test.sh
source "$(dirname "${BASH_SOURCE[0]}")/../support/app_test.sh"

text='([^"\\[:cntrl:]]|\\["\\]|\\u[0-9a-f]{4})*'
line='^\{"time":"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}\.[0-9]{3}Z","level":"(trace|debug|info|warn|error)",'
line+="\"process\":\"$text\",\"message\":\"$text\"\}\$"
lines=0

all_json() {  # FILE...
  local file
  for file in "$@"; do
    [ -s "$file" ] || fail "$file is empty"
    grep -vE "$line" "$file" && fail "this line of $(basename "$file") is no JSON"
    lines=$((lines + $(wc -l <"$file")))
  done
}

json=(--log-format json --log-level debug)
"$build/actor-node" up --ps 1 --workers 1 --threads 1 --run-dir "$out/run" "${json[@]}" "$build/train_digits" "${json[@]}" \
  --digits "$data" --steps 30 --kill worker --out "$out/train" 2>"$out/errors" >"$out/log" || fail "exit code $?"
all_json "$out/errors" "$out"/run/*.log
grep -q '"level":"warn","process":"actor-node","message":"/job:worker/task:0 (pid .*ended by signal 9' "$out/errors" ||
  fail 'the supervisor does not say that a worker died'
grep -q '"process":"train_digits","message":"peer down: peer=/job:worker/task:0 ' "$out/errors" ||
  fail 'the program does not log that a worker is gone'
grep -q '"process":"/job:ps/task:0","message":"listening: address=127.0.0.1:' "$out/run/ps-0.log" ||
  fail 'the ps does not log that it listens'

# One line each, also JSON: for a missing file, and for a program that cannot run.
"$build/train_digits" "${json[@]}" --digits "$out/no\"where" 2>"$out/errors" && fail 'a file that is not there: exit code 0'
all_json "$out/errors"
"$build/actor-node" up "${json[@]}" "$out/no-program" 2>"$out/errors" && fail 'a program that is not there: exit code 0'
all_json "$out/errors"
"$build/actor-node" join "${json[@]}" --listen 0.0.0.0:0 2>"$out/errors" && fail 'beyond loopback: exit code 0'
all_json "$out/errors"
echo "$lines lines of supervisor, nodes and programs, all JSON"
