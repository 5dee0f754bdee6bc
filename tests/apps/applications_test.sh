#!/usr/bin/env bash
# The programs that learn from data, each on a small cut of data: results, files, mistakes of a user,
# --resume, a cluster, and a cluster whose worker dies. Argument: the build folder.
set -uo pipefail
# shellcheck source=tests/support/app_test.sh
source "$(dirname "${BASH_SOURCE[0]}")/../support/app_test.sh"
build=$(cd "$build" && pwd)
cd "$out" || exit 1

files() {  # NAME...: are there and not empty; a picture is XML that ends
  local file
  for file in "$@"; do
    [ -s "$file" ] || fail "$file is missing or empty"
    case $file in *.svg) tail -n 1 "$file" | grep -q '^</svg>$' || fail "$file does not end" ;; esac
  done
}
number() { sed -n "s/.*$1\([-+0-9.e]*\).*/\1/p" "$out/log" | tail -n 1; }  # TEXT: the number behind it in the newest log
at_least() {  # LEAST NUMBER WHAT
  awk -v a="$2" -v b="$1" 'BEGIN { exit !(a != "" && a + 0 >= b + 0) }' || fail "$3 is ${2:-missing}, wanted at least $1"
}
cut_table() {  # the first 400 digits
  zcat "$data" | head -n 401
}
cut_table >digits.csv

expect 0 'largest gradient [0-9.]*e-0[89]$' "$build/regression" --data digits.csv --out r
at_least 90 "$(grep '^test' log | sed 's/.*accuracy \([0-9.]*\).*/\1/')" 'accuracy of regression'
files r/coefficients.csv r/curve.svg r/curve.csv
whole=$(sed -n 's/.*sha256 \([0-9a-f]*\).*/\1/p' log)
# One that ended at the optimum is there, too, if it is resumed and has nothing to do.
steps=$(sed -n 's/^sync: \([0-9]*\) steps in.*/\1/p' log)
expect 0 'largest gradient [0-9.]*e-0[89]$' "$build/regression" --data digits.csv --out r --steps "$steps" --resume
expect 0 "^sync: begins anew; $steps steps of an earlier training were removed from .*/r/checkpoint-sync" \
  "$build/regression" --data digits.csv --out r
# Columns that cancel each other: the curvature is along their difference.
{ echo a,b,c,d,label; for i in $(seq 200); do v=$((i * 37 % 101)); echo "$v,-$v,$v,-$v,$((i % 7 < 3))"; done; } >cancel.csv
expect 0 "objective 0.6[0-9]*, largest gradient [0-9.]*e-[01][0-9]\$" "$build/regression" --data cancel.csv --out cancel

# Stopped half way and resumed, the weights are those of an undisturbed run.
expect 0 'not yet the optimum' "$build/regression" --data digits.csv --out half --steps 400 --tolerance 0
expect 0 'sha256' "$build/regression" --data digits.csv --out half --steps 800 --tolerance 0 --resume
resumed=$(sed -n 's/.*sha256 \([0-9a-f]*\).*/\1/p' log)
expect 0 'sha256' "$build/regression" --data digits.csv --out straight --steps 800 --tolerance 0
[ "$resumed" = "$(sed -n 's/.*sha256 \([0-9a-f]*\).*/\1/p' log)" ] || fail 'resumed weights differ'
cmp -s half/coefficients.csv straight/coefficients.csv || fail 'resumed coefficients differ'
cmp -s half/curve.csv straight/curve.csv || fail 'the resumed curve has other points'

# Killed behind a checkpoint, it resumes with a whole curve.
"$build/regression" --data digits.csv --out cut --steps 800 --tolerance 0 >cut.log 2>&1 &
pids=($!)
has_checkpoint() { compgen -G 'cut/checkpoint-sync/*.manifest.json' >/dev/null; }
wait_for 60 has_checkpoint || fail 'no checkpoint'
kill -9 "${pids[0]}"
wait "${pids[0]}" 2>/dev/null
pids=()
expect 0 'sha256' "$build/regression" --data digits.csv --out cut --steps 800 --tolerance 0 --resume
cmp -s cut/curve.csv straight/curve.csv || fail 'the curve of a killed program has other points'

# On a cluster they are the same bits, also if a worker dies on the way.
mkfifo lines
"$build/actor-node" up --ps 2 --workers 2 --threads 1 --run-dir run "$build/regression" --data digits.csv --out killed >lines 2>&1 &
pids=($!)
killed=0
while IFS= read -r line; do
  printf '%s\n' "$line"
  case $line in 'sync step'*) ((killed++)) || kill -9 "$(<run/worker-0.pid)" ;; esac
done <lines >log
wait "${pids[0]}" || fail "with a killed worker: exit code $?"
pids=()
[ "$killed" -gt 0 ] || fail 'no worker was killed'
grep -q "sha256 $whole" log || fail 'with a killed worker the weights differ'

for i in $(seq 300); do printf 'the cat sat on mat %d\nthe cat ran\n' "$((i % 7))"; done >cats.txt
for i in $(seq 300); do printf 'a dog barks at tree %d\na dog slept\n' "$((i % 7))"; done | gzip >dogs.txt.gz
expect 0 'accuracy 100.000 %' "$build/regression" --text cats.txt --text dogs.txt.gz --batch 32 --out text
files text/curve.svg text/curve.csv
# 4,000 test lines of the first file, which are right, and 1,000 of the second, which are wrong: more than one batch of 4,096.
yes 'one and the same' | head -n 40000 >most.txt
head -n 10000 most.txt >few.txt
expect 0 'accuracy 80.000 %' "$build/regression" --text most.txt --text few.txt --out rest

expect 0 '^best: start' "$build/kmeans" --data digits.csv --out k
alone=$(number 'inertia ')
files k/centres.csv k/curve.svg
expect 0 '^best: start' "$build/actor-node" up --ps 1 --workers 2 --threads 1 "$build/kmeans" --data digits.csv --out k2
[ "$alone" = "$(number 'inertia ')" ] || fail "inertia $alone alone, $(number 'inertia ') on a cluster"
cmp -s k/centres.csv k2/centres.csv || fail 'centres differ on a cluster'

for model in linear logistic; do
  expect 0 '^Langevin' "$build/bayes" --model $model --steps 1500 --blocks 16 --out "b-$model"
  at_least -5 "-$(grep '^variational ' log | sed 's/.* \([0-9.]*\) %.*/\1/')" "deviations of the $model model"
  files "b-$model/posterior.csv" "b-$model/calibration.svg" "b-$model/curve.svg"
done
cp "b-linear/posterior.csv" before.csv
expect 0 '^Langevin' "$build/bayes" --model linear --steps 1500 --blocks 16 --out b-linear --resume
cmp -s before.csv b-linear/posterior.csv || fail 'a finished bayes resumes to another posterior'
expect 0 '^Langevin' "$build/bayes" --model linear --steps 1500 --blocks 8 --out b-linear --resume
cmp -s before.csv b-linear/posterior.csv || fail 'less blocks than there are give another posterior'
rm b-linear/checkpoint-langevin/*.manifest.json  # as if it was killed in its first checkpoint
expect 0 '^Langevin' "$build/bayes" --model linear --steps 1500 --blocks 2 --out b-linear --resume
works='are of: linear model, prior precision 1, .*; this run is of:'
expect 78 "$works logistic model, prior precision 1" "$build/bayes" --model logistic --out b-linear --resume
expect 78 "$works linear model, prior precision 2" "$build/bayes" --precision 2 --out b-linear --resume
expect 78 "$works linear model, prior precision 1" "$build/bayes" --seed 2 --out b-linear --resume

expect 0 'accuracy' "$build/forest" --data digits.csv --trees 30 --out f
at_least 85 "$(number 'accuracy ')" 'accuracy of forest'
cp log alone
files f/importance.csv f/curve.svg
expect 0 "$(grep '^test' alone)" "$build/actor-node" up --ps 1 --workers 3 --plugin "$build/forest_ops.so" "$build/forest" --data digits.csv --trees 30 --out f2
expect 0 "$(grep '^test' alone)" "$build/forest" --data digits.csv --trees 30 --plugin "$build/tests/plugins/cube.so" --out f2
expect 78 'only /job:client.* has ApplyTree, GrowTree' "$build/actor-node" up --ps 1 --workers 1 "$build/forest" --data digits.csv --out f3

expect 0 'points above training anew' "$build/transfer" --data digits.csv --steps 60 --new-steps 40 --out t
files t/curve.svg t/checkpoint-old/*.manifest.json

# Mistakes of a user.
head -c 9000 "$data" >cut.csv.gz
printf 'a,b,label\n1,2,3\n1,x,3\n' >bad.csv
: >empty.csv
for program in regression kmeans bayes forest transfer; do
  expect 64 'there is no option --colour' "$build/$program" --colour red
  expect 0 '^Usage\|--data\|--out' "$build/$program" --help
  expect 74 'nowhere.csv' "$build/$program" --data nowhere.csv --out e
  expect 65 'cut.csv.gz' "$build/$program" --data cut.csv.gz --out e
  expect 65 'bad.csv' "$build/$program" --data bad.csv --out e
  expect 65 'empty.csv' "$build/$program" --data empty.csv --out e
done
{ echo a,b,label; for i in $(seq 0 29); do echo "$i,$i,$((i % 10))"; done; } >line.csv
expect 65 'line.csv has 2 columns and 10 classes; wanted are square images' "$build/transfer" --data line.csv --out e
expect 64 'c wants a number above 0' "$build/regression" --data digits.csv --c 0 --out e
expect 64 'wants two files' "$build/regression" --text cats.txt --out e
expect 74 'nowhere.txt' "$build/regression" --text cats.txt --text nowhere.txt --out e
expect 64 'k wants 1 to 200 for 400 points, got 300' "$build/kmeans" --data digits.csv --k 300 --out e
expect 64 'linear or logistic' "$build/bayes" --model cubic --out e
expect 65 'wants the labels 0 and 1' "$build/bayes" --model logistic --data digits.csv --out e
mkdir mnist  # 20 and 10 images of 28 x 28, whose labels are integers
perl -e '
  for (["train", 20], ["t10k", 10]) {
    my ($name, $n) = @$_;
    my @files = ("images-idx3", pack("N4", 0x803, $n, 28, 28) . pack("C*", map { $_ % 251 } 1 .. 784 * $n),
                 "labels-idx1", pack("N2", 0x801, $n) . pack("C*", map { $_ % 10 } 1 .. $n));
    while (my ($part, $bytes) = splice @files, 0, 2) {
      open(my $file, ">:raw", "mnist/$name-$part-ubyte") or die;
      print $file $bytes;
    }
  }'
expect 65 'MNIST: 20 records tell no noise beside 785 weights' "$build/bayes" --data mnist --out e
expect 65 'too few digits' "$build/transfer" --data digits.csv --examples 100 --out e

[ "$failures" = 0 ] || exit 1
echo "five programs learned, resumed and ran on clusters; $tried runs in all"
