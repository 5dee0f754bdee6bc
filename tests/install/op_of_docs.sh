#!/usr/bin/env bash
# Follows docs/adding_an_op.md literally: its op, its two lines, its test. Builds that as BUILD was
# built, and runs all tests of ops with it. The tree is not changed.
set -euo pipefail

if (($# != 1)); then
  echo "usage: $0 BUILD (a build folder of troupe, with test_ops)" >&2
  exit 64
fi
build=$(readlink -f -- "$1")
tree=$(readlink -f -- "$(dirname -- "${BASH_SOURCE[0]}")/../..")
page=$tree/docs/adding_an_op.md
scratch=$(mktemp -d)
trap 'rm -rf -- "$scratch"' EXIT

say() { printf '%s\n' "op of docs: $*"; }
fail() {
  say "$*"
  exit 1
}

# The page has sections "## The op: `FILE`" and "## The test: `FILE`", each with the file's text,
# and "| `FILE` | `LINE`" in a table.
file_under() { sed -n "s/^## $1: \`\(.*\)\`\$/\1/p" "$page"; }
text_under() {  # HEADLINE
  awk -v head="## $1: " '/^## / { inside = index($0, head) == 1 } inside && $0 == "```cpp" { on = 1; next }
    on && $0 == "```" { exit } on' "$page"
}
line_for() { sed -n "s#^| \`$1\` | \`\([^\`]*\)\`.*#\1#p" "$page"; }

op=$(file_under 'The op') test=$(file_under 'The test')
[[ $op == ops/*.cpp && $test == tests/ops/*_test.cpp ]] || fail "no files in the headlines: \"$op\", \"$test\""
[[ ! -e $tree/$op ]] || fail "$op is in the tree already; the page wants another example"
mkdir -p "$scratch/tests/ops" "$scratch/include/troupe"
cp -r -- "$tree/ops" "$scratch/ops"  # a test counts the files there
text_under 'The op' >"$scratch/$op"
text_under 'The test' >"$scratch/$test"

# The two lines: in the namespace of the header, and in the list of all ops.
declaration=$(line_for include/troupe/ops.hpp) listed=$(line_for ops/all.cpp)
[[ -n $declaration && $listed == 'OP('*')' ]] || fail "no lines for the lists: \"$declaration\", \"$listed\""
awk -v line="$declaration" '/^}  \/\/ namespace troupe/ { print line } { print }' "$tree/include/troupe/ops.hpp" \
  >"$scratch/include/troupe/ops.hpp"
awk -v line="  $listed \\\\" '!done && /^  OP\(/ { print line; done = 1 } { print }' "$tree/ops/all.cpp" >"$scratch/ops/all.cpp"

compile() {  # FILE LIKE OBJECT: compiles FILE of scratch as the tree's LIKE is compiled, which becomes OBJECT
  local command
  command=$(ninja -C "$build" -t commands "$3" | tail -n 1)
  command=${command//"$tree/$2"/"$scratch/$1"}
  command=${command//"$3"/"$scratch/$1.o"}
  command=${command//TROUPE_SOURCE_DIR=\\\"$tree/TROUPE_SOURCE_DIR=\\\"$scratch}
  say "compiling $1"
  (cd -- "$build" && bash -ec "${command/ -I/ -I"$scratch/include" -I}")
}
compile "$op" ops/elementwise/square.cpp CMakeFiles/troupe_ops.dir/ops/square.cpp.o
compile ops/all.cpp ops/all.cpp CMakeFiles/troupe_ops.dir/ops/all.cpp.o
compile "$test" tests/ops/elementwise/square_test.cpp tests/CMakeFiles/test_ops.dir/ops/square_test.cpp.o
counting=tests/ops/completeness_test.cpp
cp -- "$tree/$counting" "$scratch/$counting"
compile "$counting" "$counting" tests/CMakeFiles/test_ops.dir/ops/completeness_test.cpp.o
link=$(ninja -C "$build" -t commands tests/test_ops | tail -n 1)
link=${link/CMakeFiles\/troupe_ops.dir\/ops\/all.cpp.o/"$scratch/ops/all.cpp.o" "$scratch/$op.o" "$scratch/$test.o"}
link=${link/tests\/CMakeFiles\/test_ops.dir\/ops\/completeness_test.cpp.o/"$scratch/$counting.o"}
(cd -- "$build" && bash -ec "${link/-o tests\/test_ops/-o "$scratch/test_ops"}")

name=$(sed -n 's/^TEST_CASE("\(.*\)").*/\1/p' "$scratch/$test")
"$scratch/test_ops" >"$scratch/log" || { cat -- "$scratch/log"; fail 'the tests fail with the op of the page'; }
"$scratch/test_ops" "--test-case=$name" | grep -q ' 1 passed' || fail "the test of the page did not run: \"$name\""
say "added as the page says, and all tests of ops pass, with \"$name\""
