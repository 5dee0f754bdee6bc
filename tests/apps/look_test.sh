#!/usr/bin/env bash
# `troupe graph` and `troupe trace` of files and of programs, and their answers to mistakes.
# Argument: the build folder.
set -uo pipefail
# shellcheck source=tests/support/app_test.sh
source "$(dirname "${BASH_SOURCE[0]}")/../support/app_test.sh"

cat >"$out/small.txt" <<'GRAPH'
troupe graph 1
x = Placeholder() dtype=f32 shape=[2]
one = Constant() value=f32[2]{1, 1}
two = Constant() value=f32[2]{2, 2}
sum = Add(one, two)
y = Multiply(x, sum)
unused = Exp(x)
GRAPH
expect 0 '^y = Multiply(x, sum)' "$build/troupe" graph "$out/small.txt"
cp "$out/log" "$out/again.txt"
expect 0 '^y = Multiply(x, sum)' "$build/troupe" graph - <"$out/again.txt"
cmp -s "$out/log" "$out/again.txt" || { echo 'the text of a graph does not read back equal'; failures=$((failures + 1)); }
expect 0 '^digraph troupe {' "$build/troupe" graph --format dot "$out/small.txt"
expect 0 '^== prune: 6 nodes before, 5 after' "$build/troupe" graph --passes --fetch y "$out/small.txt"
grep -q '^- unused = Exp(x)' "$out/log" || { echo 'prune does not show what it took away'; failures=$((failures + 1)); }
grep -q '^- sum = Add(one, two)' "$out/log" && grep -q '^+ sum = Constant()' "$out/log" || {
  echo 'fold_constants does not show before and after'
  failures=$((failures + 1))
}
expect 0 '^== the graph that runs' "$build/troupe" graph --passes "$out/small.txt"
expect 0 '^y = Multiply' "$build/troupe" graph --fetch y "$out/small.txt"
grep -q unused "$out/log" && { echo '--fetch shows what it does not need'; failures=$((failures + 1)); }

# The memory section of the plan.
expect 0 '^/job:local/task:0/device:cpu:0: [0-9]* bytes at most, at y;' "$build/troupe" graph --memory --fetch y "$out/small.txt"
expect 64 '^.*--memory is shown as text; leave out --format' "$build/troupe" graph --memory --format dot "$out/small.txt"
expect 64 'shown one at a time' "$build/troupe" graph --memory --passes "$out/small.txt"

# If the batch size is open, the output says so; --batch sets it.
cat >"$out/open.txt" <<'GRAPH'
troupe graph 1
x = Placeholder() dtype=f32 shape=[-1, 4]
rows = Placeholder() dtype=f32 shape=[4, 8]
y = MatMul(x, rows)
flat = Reshape(y) shape=[-1]
z = ReduceSum(flat)
GRAPH
expect 0 'open: of x f32\[-1, 4\]; --batch N counts with N for the first one of each$' "$build/troupe" graph --memory --fetch z --feed x --feed rows "$out/open.txt"
grep -q ' bytes at least, at .* of unknown size not counted' "$out/log" || { echo 'what is open counts as nothing'; failures=$((failures + 1)); }
expect 0 '^  16384 bytes: y:0 f32\[512, 8\]' "$build/troupe" graph --memory --batch 512 --fetch z --feed x --feed rows "$out/open.txt"
grep -q 'unknown\|open' "$out/log" && { echo 'something is open with --batch'; failures=$((failures + 1)); }
expect 64 'batch is for --memory' "$build/troupe" graph --batch 4 "$out/open.txt"
expect 64 'batch wants 1 to 1073741824, got 0' "$build/troupe" graph --memory --batch 0 "$out/open.txt"

# The program called dot draws SVG; without it the remedy is printed.
mkdir "$out/bin"
printf '#!/bin/sh\necho "<svg>$1 $(grep -c -- "->")</svg>"\n' >"$out/bin/dot"
chmod +x "$out/bin/dot"
expect 0 '<svg>-Tsvg 5</svg>' env PATH="$out/bin:$PATH" "$build/troupe" graph --format svg "$out/small.txt"
expect 78 'install graphviz, or take --format dot' env PATH=/nowhere "$build/troupe" graph --format svg "$out/small.txt"

# Branches and loops: the nodes in them are not fetched by themselves, also if they have no reader.
cat >"$out/frames.txt" <<'GRAPH'
troupe graph 1
x = Placeholder() dtype=f32 shape=[]
p = Placeholder() dtype=bool shape=[]
no = Branch(p) branch=0 branches=2
yes = Branch(p) branch=1 branches=2
a = Capture(x) in yes after yes
dead = Exp(a) in yes
b = Negate(a) in yes
c = Capture(x) in no after no
y = Merge(c, b)
GRAPH
expect 0 '^fetches y$' "$build/troupe" graph --passes "$out/frames.txt"
grep -q '^- dead = Exp(a) in yes' "$out/log" || { echo 'prune does not take away what is dead in a branch'; failures=$((failures + 1)); }
expect 64 'is inside the Branch node yes' "$build/troupe" graph --passes --fetch dead "$out/frames.txt"

expect 74 'nowhere.txt: No such file' "$build/troupe" graph "$out/nowhere.txt"
expect 74 'it is a folder' "$build/troupe" graph "$out"
expect 74 'it is a device' "$build/troupe" graph /dev/zero
expect 65 'line 2' "$build/troupe" graph - <<<$'troupe graph 1\ny = NoSuchOp(x)'
expect 64 'troupe graph: the graph has no node "z"; did you mean' "$build/troupe" graph --fetch z "$out/small.txt"
expect 64 '--format wants text, dot or svg, got "png"' "$build/troupe" graph --format png "$out/small.txt"
expect 64 'leave out --format' "$build/troupe" graph --passes --format dot "$out/small.txt"
expect 64 'wants one FILE, or -- and a PROGRAM' "$build/troupe" graph
expect 64 'see troupe graph --help' "$build/troupe" graph --colour "$out/small.txt"
expect 64 'cannot run no-such-program' "$build/troupe" graph -- no-such-program
expect 64 'has written nothing; does it prepare a call' "$build/troupe" graph -- true
expect 0 'FILE is a graph as to_text' "$build/troupe" graph --help

# Any program: the demo has no code for this.
digits=("$build/train_digits" --digits "$data" --steps 8 --out "$out/run")
expect 0 'Convolution(' "$build/troupe" graph -- "${digits[@]}"
# It makes two sessions: the last one is shown, and the output tells how to see another.
grep -q 'has made 2 sessions; this is the last one, and --session 1 to 1 shows another' "$out/log" || {
  echo 'that there are several sessions is not said'
  failures=$((failures + 1))
}
expect 0 'Convolution(' "$build/troupe" graph --session 1 -- "${digits[@]}"
grep -q 'this is the last one' "$out/log" && { echo 'who chose a session is told to'; failures=$((failures + 1)); }
expect 64 'session 3: .* has made 2 sessions that could be shown, counted from 1' "$build/troupe" trace --peak 0 --session 3 -- "${digits[@]}"
expect 64 'session is 0; sessions count from 1' "$build/troupe" trace --session 0 -- true
expect 64 'FILE is of one already' "$build/troupe" graph --session 1 "$out/small.txt"
expect 0 'fetches .*loss' "$build/troupe" graph --passes -- "${digits[@]}"
expect 0 'Kernels, by op' "$build/troupe" trace --peak 0 --session 1 --out "$out/kept.json" -- "${digits[@]}"
expect 0 '^  ConvolutionFilterGradient ' "$build/troupe" trace --peak 100 "$out/kept.json"
expect 0 'Kernels, by op' "$build/troupe" trace "$out/run/trace.json"
grep -q 'a product of matrices of f32 here and now' "$out/log" || { echo 'the peak is not said'; failures=$((failures + 1)); }
expect 0 'trace (for chrome.*mine.json' "${digits[@]}" --trace "$out/mine.json"
[ -s "$out/mine.json" ] || { echo 'train_digits --trace writes none'; failures=$((failures + 1)); }

expect 0 'Kernels, by op' "$build/troupe" trace --peak 0 - <"$out/kept.json"
expect 74 'cannot read -: it is a device' "$build/troupe" trace - </dev/zero
expect 74 'nowhere.json: No such file' "$build/troupe" trace "$out/nowhere.json"
expect 65 'this is no trace of Troupe' "$build/troupe" trace "$out/small.txt"
head -c 2000 "$out/kept.json" >"$out/cut.json"
expect 65 'line ' "$build/troupe" trace "$out/cut.json"
expect 64 '--nodes and --steps want 0 or more, got -1 and 10' "$build/troupe" trace --nodes -1 "$out/kept.json"
expect 64 '--peak wants GFLOP/s, 0 or more, got -1' "$build/troupe" trace --peak -1 "$out/kept.json"
expect 64 'FILE is one already' "$build/troupe" trace --out "$out/x.json" "$out/kept.json"
expect 64 'has written nothing; does it close its session' "$build/troupe" trace -- true
expect 64 'wants one FILE' "$build/troupe" trace
expect 64 'doctor: it takes no argument, got now' "$build/troupe" doctor now
expect 64 'unknown verb "draw"' "$build/troupe" draw

[ "$failures" = 0 ] || exit 1
echo "$tried looks at graphs and traces, each as it should be"
