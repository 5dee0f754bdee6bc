#!/usr/bin/env bash
# Follows docs/adding_an_op.md literally: its row with three lines, its op with two lines and its
# test. Builds that as BUILD was built, and runs all tests of ops with it. The tree is not changed.
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
# "## The row: `FILE`" with a row of that file's table, and "| `FILE` | `LINE`" in tables.
file_under() { sed -n "s/^## $1: \`\(.*\)\`\$/\1/p" "$page"; }
text_under() {  # HEADLINE
  awk -v head="## $1: " '/^## / { inside = index($0, head) == 1 } inside && $0 == "```cpp" { on = 1; next }
    on && $0 == "```" { exit } on' "$page"
}
line_for() { sed -n "s#^| \`$1\` | \`\([^\`]*\)\`.*#\1#p" "$page"; }

op=$(file_under 'The op') test=$(file_under 'The test') family=$(file_under 'The row')
[[ $op == ops/*.cpp && $test == tests/ops/*_test.cpp ]] || fail "no files in the headlines: \"$op\", \"$test\""
[[ -e $tree/$family ]] || fail "no file of a family in the headline of the row: \"$family\""
[[ ! -e $tree/$op ]] || fail "$op is in the tree already; the page wants another example"
mkdir -p "$scratch/${test%/*}" "$scratch/include/troupe/ops"
cp -r -- "$tree/ops" "$scratch/ops"  # a test counts the files there
text_under 'The op' >"$scratch/$op"
text_under 'The test' >"$scratch/$test"

# The two lines: in the namespace of the header, and in the list of all ops.
before_end() { awk -v line="$1" '/^}  \/\/ namespace troupe/ { print line } { print }' "$tree/$2"; }  # LINE FILE
declaration=$(line_for include/troupe/ops.hpp) listed=$(line_for ops/all.cpp)
[[ -n $declaration && $listed == 'OP('*')' ]] || fail "no lines for the lists: \"$declaration\", \"$listed\""
before_end "$declaration" include/troupe/ops.hpp >"$scratch/include/troupe/ops.hpp"
awk -v line="  $listed \\\\" '!done && /^  OP\(/ { print line; done = 1 } { print }' "$tree/ops/all.cpp" >"$scratch/ops/all.cpp"

# The row, its function, its declaration, and the row of its test.
header=include/troupe/ops/elementwise.hpp rows=tests/ops/elementwise/unary_test.cpp
for file in "$family" "$header" "$rows"; do
  [[ -n $(line_for "$file") ]] || fail "no line for $file"
done
text_under 'The row' >"$scratch/row"
mkdir -p "$scratch/${rows%/*}"
before_end "$(line_for "$family")" "$family" |
  sed "/^  return {\$/r $scratch/row" >"$scratch/$family"
before_end "$(line_for "$header")" "$header" >"$scratch/$header"
line_for "$rows" >"$scratch/row"
sed "/^const std::vector<Unary> rows = {/r $scratch/row" "$tree/$rows" >"$scratch/$rows"

compile() {  # FILE LIKE OBJECT: compiles FILE of scratch as the tree's LIKE is compiled, which becomes OBJECT
  local command
  command=$(ninja -C "$build" -t commands "$3" | tail -n 1)
  command=${command//"$tree/$2"/"$scratch/$1"}
  command=${command//"$3"/"$scratch/$1.o"}
  command=${command//TROUPE_SOURCE_DIR=\\\"$tree/TROUPE_SOURCE_DIR=\\\"$scratch}
  command=$(sed -E 's/ -Winvalid-pch -include [^ ]+//' <<<"$command")  # the tree's headers, precompiled
  say "compiling $1"
  (cd -- "$build" && bash -ec "${command/ -I/ -I"$scratch/include" -I}")
}
# The program of all tests: an object of its command is replaced. An object of a library comes before
# the library, whose own is then not taken.
link=$(ninja -C "$build" -t commands tests/test_ops | tail -n 1)
objects=()
again() {  # FILE OBJECT: compiles scratch's FILE, whose object takes the place of OBJECT
  compile "$1" "$1" "$2"
  if [[ $link == *"$2"* ]]; then
    link=${link//"$2"/"$scratch/$1.o"}
  else
    objects+=("$scratch/$1.o")
  fi
}
library=CMakeFiles/troupe_ops.dir tests=tests/CMakeFiles/test_ops.dir/ops
paths=support/paths.cpp  # names the folder whose ops a test counts
mkdir -p "$scratch/tests/support"
cp -- "$tree/tests/$paths" "$scratch/tests/$paths"
compile "$op" ops/arrays/transpose.cpp "$library/ops/arrays/transpose.cpp.o"
compile "$test" tests/ops/elementwise/where_test.cpp "$tests/elementwise/where_test.cpp.o"
objects+=("$scratch/$op.o" "$scratch/$test.o")
again ops/all.cpp "$library/ops/all.cpp.o"
again "$family" "$library/$family.o"
again "$rows" "$tests/${rows#tests/ops/}.o"
again "tests/$paths" "tests/CMakeFiles/test_support.dir/$paths.o"
(cd -- "$build" && bash -ec "${link/-o tests\/test_ops/"${objects[*]}" -o "$scratch/test_ops"}")

name=$(sed -nE 's/^(TEST_CASE|const Table [a-z]+)\("(.*)".*/\2/p' "$scratch/$test")
"$scratch/test_ops" >"$scratch/log" || { cat -- "$scratch/log"; fail 'the tests fail with the op of the page'; }
"$scratch/test_ops" "--test-case=$name" | grep -q ' 1 passed' || fail "the test of the page did not run: \"$name\""
say "added as the page says, and all tests of ops pass, with \"$name\""
