#!/usr/bin/env bash
# Installs BUILD into an empty folder, then builds and runs against it, as a stranger would: the service of this folder, and the
# programs of README.md, docs/service.md and docs/adding_an_op.md as they are written there.
set -euo pipefail

if (($# != 1)); then
  echo "usage: $0 BUILD (a build folder of troupe)" >&2
  exit 64
fi
build=$(readlink -f -- "$1")
here=$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")
readme=$here/../../README.md
page=$here/../../docs/adding_an_op.md
scratch=$(mktemp -d)
trap 'rm -rf -- "$scratch"' EXIT

say() { printf '%s\n' "install: $*"; }

block() {  # FILE HEADLINE LANGUAGE: the first block of that language below the headline
  awk -v headline="## $2" -v fence='```'"$3" '/^## / { inside = $0 == headline } inside && $0 == fence { on = 1; next }
    on && $0 == "```" { exit } on' "$1"
}

say 'installing'
cmake --install "$build" --prefix "$scratch/prefix" >"$scratch/install.log" || { cat -- "$scratch/install.log"; exit 1; }

say 'building and running a service with two runtimes'
cp -r -- "$here" "$scratch/service"  # nothing of the tree is beside it
cmake -S "$scratch/service" -B "$scratch/service-build" -G Ninja -DCMAKE_PREFIX_PATH="$scratch/prefix" \
  -DCMAKE_BUILD_TYPE=Release
cmake --build "$scratch/service-build"
"$scratch/service-build/service"

say 'building and running the program of README.md'
mkdir "$scratch/readme"
block "$readme" "A program" cpp >"$scratch/readme/learn_xor.cpp"
block "$readme" "A program" cmake >"$scratch/readme/CMakeLists.txt"
lines=$(grep -c . "$scratch/readme/learn_xor.cpp" || true)
((lines > 0 && lines <= 20)) || { say "README.md wants a program of at most 20 lines under \"## A program\""; exit 1; }
# The command of README.md, with its word for a folder replaced.
command=$(grep -m 1 '^cmake -S .*learn_xor' "$readme")
(cd -- "$scratch/readme" && bash -ec "${command//=PREFIX/=$scratch/prefix}") | tee "$scratch/readme.log"
tail -n 1 "$scratch/readme.log" | tr -d '{},' | awk '
  { wrong = NF != 6 || $1 != "f32[4" }
  { for (i = 3; i <= 6; ++i) wrong = wrong || ($i > 0.5) != (i == 4 || i == 5) }
  END { if (wrong) print "install: it should have printed f32[4, 1] and four numbers near 0, 1, 1, 0"; exit wrong }'

say 'building and running the program of docs/service.md'
guide=$here/../../docs/service.md
mkdir "$scratch/guide"
block "$guide" "A service that trains" cpp >"$scratch/guide/learns.cpp"
sed 's/learn_xor/learns/g' "$scratch/readme/CMakeLists.txt" >"$scratch/guide/CMakeLists.txt"
guided=${command//learn_xor/learns}
(cd -- "$scratch/guide" && bash -ec "${guided//=PREFIX/=$scratch/prefix}") | tee "$scratch/guide.log"
printed=$(sed -n 's/^Its last line is `\(.*\)`; the accuracies are above .*/\1/p' "$guide")
if [[ -z $printed || $(tail -n 1 "$scratch/guide.log") != "$printed" ]] ||
  ! awk '/^accuracy on new records: / { good = $NF > 0.9 } END { exit !good }' "$scratch/guide.log"; then
  say "it should have printed \"$printed\", and an accuracy above 0.9"
  exit 1
fi

say 'building and running the program of docs/adding_an_op.md'
mkdir "$scratch/page"
block "$page" "An op of your own, in a service" cpp >"$scratch/page/cube.cpp"
sed 's/learn_xor/cube/g' "$scratch/readme/CMakeLists.txt" >"$scratch/page/CMakeLists.txt"
command=${command//learn_xor/cube}
(cd -- "$scratch/page" && bash -ec "${command//=PREFIX/=$scratch/prefix}") | tee "$scratch/page.log"
# shellcheck disable=SC2016  # quotes of the page, not of the shell
printed=$(sed -n 's/^It prints `\(f32.*\)`\.$/\1/p' "$page")
if [[ -z $printed || $(tail -n 1 "$scratch/page.log") != "$printed" ]]; then
  say "it should have printed \"$printed\""
  exit 1
fi

say 'building the plugin of docs/adding_an_op.md, and running its op in a program of this folder and in the installed ones'
mkdir "$scratch/plugin"
block "$page" "An op of your own, in a plugin" cpp >"$scratch/plugin/half.cpp"
block "$page" "An op of your own, in a plugin" cmake >"$scratch/plugin/CMakeLists.txt"
cp -- "$here/use_plugin.cpp" "$scratch/plugin/program.cpp"
cmake -S "$scratch/plugin" -B "$scratch/plugin-build" -G Ninja -DCMAKE_PREFIX_PATH="$scratch/prefix" -DCMAKE_BUILD_TYPE=Release
cmake --build "$scratch/plugin-build"
"$scratch/plugin-build/program" "$scratch/plugin-build/half.so"
"$scratch/prefix/bin/troupe" ops Half --plugin "$scratch/plugin-build/half.so" | tee "$scratch/plugin.log"
grep -q '^Half  *x  *y ' "$scratch/plugin.log" || { say 'troupe ops does not list the op of the plugin'; exit 1; }
"$scratch/prefix/bin/actor-node" up --ps 0 --workers 1 --plugin "$scratch/plugin-build/half.so" bash -c '[[ $TROUPE_PLUGINS == */half.so ]]'

# Nothing that was installed may point back at the tree or carry our flags.
if grep -rlE --include='*.cmake' -e '-Werror' -e "$(readlink -f -- "$here/../..")" "$scratch/prefix"; then
  say "the installed package configuration names the source tree or our flags"
  exit 1
fi
say "installed, found, built and run, with README.md's program of $lines lines and an op of its own"
