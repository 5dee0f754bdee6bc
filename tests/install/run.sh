#!/usr/bin/env bash
# Installs BUILD into an empty folder, then builds and runs the service of this folder against it, as a stranger would.
set -euo pipefail

if (($# != 1)); then
  echo "usage: $0 BUILD (a build folder of troupe)" >&2
  exit 64
fi
build=$(readlink -f -- "$1")
here=$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")
scratch=$(mktemp -d)
trap 'rm -rf -- "$scratch"' EXIT

cmake --install "$build" --prefix "$scratch/prefix" >"$scratch/install.log" || { cat -- "$scratch/install.log"; exit 1; }
cp -r -- "$here" "$scratch/service"  # nothing of the tree is beside it
cmake -S "$scratch/service" -B "$scratch/service-build" -G Ninja -DCMAKE_PREFIX_PATH="$scratch/prefix" \
  -DCMAKE_BUILD_TYPE=Release
cmake --build "$scratch/service-build"
"$scratch/service-build/service"
# Nothing that was installed may point back at the tree or carry our flags.
if grep -rlE -e '-Werror' -e "$(readlink -f -- "$here/../..")" "$scratch/prefix/lib"*/cmake; then
  echo "the installed package configuration names the source tree or our flags"
  exit 1
fi
echo "installed, found, built and run"
