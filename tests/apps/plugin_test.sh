#!/usr/bin/env bash
# Plugins in the programs: a compatible one serves a whole cluster and its program; a node without
# it is refused with the op's name; a file that is not a plugin ends a program with one line before
# it begins. Argument: the build folder.
set -uo pipefail
# shellcheck source=tests/support/app_test.sh
source "$(dirname "${BASH_SOURCE[0]}")/../support/app_test.sh"
plugins=$build/tests/plugins

expect 0 '^Cube  *x  *y ' "$build/troupe" ops Cube --plugin "$plugins/cube.so"
expect 0 'cube.so: Cube OtherShape ThrowsInKernel' "$build/troupe" doctor --plugin "$plugins/cube.so"
expect 74 'nowhere.so: No such file' "$build/troupe" ops --plugin nowhere.so
expect 74 'it is not a file' "$build/troupe" ops --plugin /dev/zero
expect 65 'no_plugin.so is no plugin of Troupe' "$build/troupe" ops --plugin "$plugins/no_plugin.so"
expect 65 'is no plugin of Troupe' "$build/troupe" ops --plugin "$data"
expect 78 'has ABI version 7, this program has 1; build' "$build/troupe" ops --plugin "$plugins/other_abi.so"
expect 78 'was built with other headers' "$build/troupe" ops --plugin "$plugins/other_layout.so"
expect 78 'the license has run out' "$build/actor-node" join --plugin "$plugins/throws.so"
expect 78 'nowhere_defined' "$build/actor-node" join --plugin "$plugins/missing_symbol.so"
expect 78 'adds an op "MatMul", but there is already one' "$build/actor-node" up --plugin "$plugins/name_exists.so" true
expect 78 'adds an op "Cube", but' "$build/train_digits" --digits "$data" --out "$out/x" --plugin "$plugins/cube.so" --plugin "$plugins/cube.so"

# A cluster with the plugin: its program gets it through the environment and trains; a node without
# it, or with another Cube, is refused.
"$build/actor-node" join --job ps --plugin "$plugins/cube.so" --address-file "$out/address" 2>"$out/ps.log" &
pids+=($!)
wait_for 30 test -s "$out/address" || fail 'the node does not listen'
address=$(cat "$out/address")
remedy='start both with the same --plugin files'
expect 78 "only /job:ps/task:0 has Cube, OtherShape, ThrowsInKernel; $remedy" "$build/actor-node" join --job worker --task 0 --seed "$address"
expect 78 "each has another Cube\|only /job:ps/task:0 has OtherShape" "$build/actor-node" join --job worker --task 0 --seed "$address" \
  --plugin "$plugins/other_cube.so"
expect 78 "only /job:ps/task:0 has Cube" env TROUPE_CLUSTER="$address" TROUPE_PS=1 TROUPE_WORKERS=0 "$build/train_digits" --digits "$data" \
  --steps 2 --out "$out/x"
expect 0 '^sync .*sha256' "$build/actor-node" up --ps 1 --workers 1 --plugin "$plugins/cube.so" "$build/train_digits" --digits "$data" \
  --steps 4 --out "$out/run"

[ "$failures" = 0 ] || exit 1
echo "$tried plugins and clusters, each loaded or refused as it should be"
