#!/usr/bin/env bash
# Installs BUILD into an empty folder, then builds and runs against it, as an outside user would:
# the service of this folder, the programs of README.md, docs/service.md, docs/examples.md,
# docs/chaos.md and docs/adding_an_op.md as written there, and the installed examples.
set -euo pipefail

if (($# != 1)); then
  echo "usage: $0 BUILD (a build folder of troupe)" >&2
  exit 64
fi
build=$(readlink -f -- "$1")
here=$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")
readme=$here/../../README.md
guide=$here/../../docs/service.md
small=$here/../../docs/examples.md
page=$here/../../docs/adding_an_op.md
chaos=$here/../../docs/chaos.md
scratch=$(mktemp -d)
trap 'rm -rf -- "$scratch"' EXIT

say() { printf '%s\n' "install: $*"; }

block() {  # FILE HEADLINE LANGUAGE: the first block of that language below the headline
  awk -v headline="## $2" -v fence='```'"$3" '/^## / { inside = $0 == headline } inside && $0 == fence { on = 1; next }
    on && $0 == "```" { exit } on' "$1"
}

# Builds the program of a page and runs it, with the command of README.md. Its output is also in
# NAME.log.
program() {  # NAME PAGE HEADLINE [LIBRARY]
  local command
  say "building and running the program of ${2##*/}"
  mkdir "$scratch/$1"
  block "$2" "$3" cpp >"$scratch/$1/$1.cpp"
  block "$readme" "A program" cmake | sed "s/learn_xor/$1/g; s/troupe::troupe/${4:-troupe::troupe}/" >"$scratch/$1/CMakeLists.txt"
  command=$(grep -m 1 '^cmake -S .*learn_xor' "$readme")
  command=${command//learn_xor/$1}
  (cd -- "$scratch/$1" && bash -ec "${command//=PREFIX/=$scratch/prefix}") | tee "$scratch/$1.log"
}

# Checks that the program of this name has printed the last line that its page promises.
promised() {  # NAME LINE
  [[ -n $2 && $(tail -n 1 "$scratch/$1.log") == "$2" ]] || { say "it should have printed \"$2\""; return 1; }
}

say 'installing'
cmake --install "$build" --prefix "$scratch/prefix" >"$scratch/install.log" || { cat -- "$scratch/install.log"; exit 1; }

say 'building and running a service with two runtimes'
cp -r -- "$here" "$scratch/service"  # apart from all files of the tree
cmake -S "$scratch/service" -B "$scratch/service-build" -G Ninja -DCMAKE_PREFIX_PATH="$scratch/prefix" \
  -DCMAKE_BUILD_TYPE=Release
cmake --build "$scratch/service-build"
"$scratch/service-build/service"

program learn_xor "$readme" "A program"
lines=$(grep -c . "$scratch/learn_xor/learn_xor.cpp" || true)
((lines > 0 && lines <= 20)) || { say "README.md wants a program of at most 20 lines under \"## A program\""; exit 1; }
tail -n 1 "$scratch/learn_xor.log" | tr -d '{},' | awk '
  { wrong = NF != 6 || $1 != "f32[4" }
  { for (i = 3; i <= 6; ++i) wrong = wrong || ($i > 0.5) != (i == 4 || i == 5) }
  END { if (wrong) print "install: it should have printed f32[4, 1] and four numbers near 0, 1, 1, 0"; exit wrong }'

program learns "$guide" "A service that trains"
# shellcheck disable=SC2016  # quotes of the page, not of the shell
promised learns "$(sed -n 's/^Its last line is `\(.*\)`; the accuracies are above .*/\1/p' "$guide")"
awk '/^accuracy on new records: / { good = $NF > 0.9 } END { exit !good }' "$scratch/learns.log" ||
  { say 'the accuracy on new records should have been above 0.9'; exit 1; }

program moves "$guide" "Weights that move"
# shellcheck disable=SC2016  # quotes of the page, not of the shell
promised moves "$(sed -n 's/^It ends with `\(.*\)`\.$/\1/p' "$guide")"

# shellcheck disable=SC2016  # quotes of the page, not of the shell
for name in layer:'A layer' expression:'An expression' halves:'A product on two workers'; do
  program "${name%%:*}" "$small" "${name#*:}"
  promised "${name%%:*}" "$(awk -v headline="## ${name#*:}" '/^## / { inside = $0 == headline } inside && /^It prints/' "$small" |
    sed -n 's/^[^`]*`\([^`]*\)`.*/\1/p')"
done
"$scratch/prefix/bin/actor-node" up --ps 1 --workers 2 "$scratch/halves/build/halves" | tee "$scratch/halves.log"
promised halves 'to the bit: by rows equal, by columns equal'

program survives "$chaos" "In simulation" troupe::chaos
# shellcheck disable=SC2016  # quotes of the page, not of the shell
promised survives "$(sed -n 's/.* Its last line is `\(.*\)`\.$/\1/p' "$chaos")"

program cube "$page" "An op of your own, in a service"
# shellcheck disable=SC2016  # quotes of the page, not of the shell
promised cube "$(sed -n 's/^It prints `\(f32.*\)`\.$/\1/p' "$page")"

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

say 'building and running the installed examples, as their README.md says'
examples=$scratch/elsewhere/examples
mkdir "$scratch/elsewhere"
# ccache finds what it compiled for another scratch folder.
if command -v ccache >/dev/null; then export CMAKE_CXX_COMPILER_LAUNCHER=ccache CCACHE_BASEDIR=$scratch CCACHE_NOHASHDIR=1; fi
commands=$(awk '$0 == "```" { on = !on; next } on' "$scratch/prefix/share/troupe/examples/README.md" | sed "s|\\bPREFIX\\b|$scratch/prefix|g")
(cd -- "$scratch/elsewhere" && bash -ec "$commands") | tee "$scratch/example.log"
[[ $(grep -c 'points above training anew$' "$scratch/example.log") == 2 ]] || { say 'transfer should have run twice'; exit 1; }
programs=$(sed -n 's/^set(programs \(.*\))$/\1/p' "$examples/CMakeLists.txt")
[[ -n $programs ]] || { say 'the examples are no programs'; exit 1; }
for name in ${programs//;/ }; do
  [[ $("$examples/build/$name" --help) == *--data* ]] || { say "$name --help does not say what --data is"; exit 1; }
done
ran() {  # TEXT COMMAND...: the command, in an empty folder, prints the text
  local text=$1
  shift
  (cd -- "$scratch/elsewhere" && "$@") >"$scratch/example.log" 2>&1 && grep -q -- "$text" "$scratch/example.log" && return
  cat -- "$scratch/example.log"
  say "it should have printed \"$text\": $*"
  return 1
}
up=("$scratch/prefix/bin/actor-node" up --ps 1 --workers 2)
ran '^best: start' "$examples/build/kmeans" --starts 2
ran '^test: .*accuracy' "${up[@]}" --plugin "$examples/build/forest_ops.so" "$examples/build/forest" --trees 10
mkdir "$scratch/elsewhere/bin"
cp -- "$examples/build/kmeans" "$scratch/elsewhere/bin"
(cd / && "$scratch/elsewhere/bin/kmeans" --out "$scratch/elsewhere/out/none") 2>&1 | tee "$scratch/example.log" || true
grep -q 'no data/digits.csv.gz in the current folder.*; name a file with --data' "$scratch/example.log" ||
  { say 'a program without data does not say where it looked'; exit 1; }

# No installed file may refer to the tree or contain our flags.
if grep -rlE --include='*.cmake' -e '-Werror' -e "$(readlink -f -- "$here/../..")" "$scratch/prefix"; then
  say "the installed package configuration names the source tree or our flags"
  exit 1
fi
say "installed, found, built and run, with README.md's program of $lines lines, an op of its own, and the examples"
