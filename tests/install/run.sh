#!/usr/bin/env bash
# Installs BUILD into an empty folder, then builds and runs against it, as a stranger would: the service of this folder, and the
# program of README.md as it is written there.
set -euo pipefail

if (($# != 1)); then
  echo "usage: $0 BUILD (a build folder of troupe)" >&2
  exit 64
fi
build=$(readlink -f -- "$1")
here=$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")
readme=$here/../../README.md
scratch=$(mktemp -d)
trap 'rm -rf -- "$scratch"' EXIT

say() { printf '%s\n' "install: $*"; }

readme_block() {  # LANGUAGE: the first block of that language below the headline "A program"
  awk -v fence='```'"$1" '/^## / { inside = $0 == "## A program" } inside && $0 == fence { on = 1; next }
    on && $0 == "```" { exit } on' "$readme"
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
readme_block cpp >"$scratch/readme/learn_xor.cpp"
readme_block cmake >"$scratch/readme/CMakeLists.txt"
lines=$(grep -c . "$scratch/readme/learn_xor.cpp" || true)
((lines > 0 && lines <= 20)) || { say "README.md wants a program of at most 20 lines under \"## A program\""; exit 1; }
# The command of README.md, with its word for a folder replaced.
command=$(grep -m 1 '^cmake -S .*learn_xor' "$readme")
(cd -- "$scratch/readme" && bash -ec "${command//=PREFIX/=$scratch/prefix}") | tee "$scratch/readme.log"
tail -n 1 "$scratch/readme.log" | tr -d '{},' | awk '
  { wrong = NF != 6 || $1 != "f32[4" }
  { for (i = 3; i <= 6; ++i) wrong = wrong || ($i > 0.5) != (i == 4 || i == 5) }
  END { if (wrong) print "install: it should have printed f32[4, 1] and four numbers near 0, 1, 1, 0"; exit wrong }'

# Nothing that was installed may point back at the tree or carry our flags.
if grep -rlE --include='*.cmake' -e '-Werror' -e "$(readlink -f -- "$here/../..")" "$scratch/prefix"; then
  say "the installed package configuration names the source tree or our flags"
  exit 1
fi
say "installed, found, built and run, with README.md's program of $lines lines"
