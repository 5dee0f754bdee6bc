#!/usr/bin/env bash
# The program words learns which words are alike in a small text, resumes, gives the same vectors on
# a cluster and after the death of a worker and of a ps, and says what is wrong with its files.
# Argument: the build folder.
set -uo pipefail
# shellcheck source=tests/support/app_test.sh
source "$(dirname "${BASH_SOURCE[0]}")/../support/app_test.sh"

# Animals eat and sleep, vehicles drive and stop; a word of one kind has the company of the others.
animals=(cat dog horse rabbit) vehicles=(car bus truck train)
for ((i = 0; i < 400; ++i)); do
  a=${animals[i % 4]} b=${animals[i / 4 % 4]} c=${vehicles[i % 4]} d=${vehicles[i / 4 % 4]}
  printf 'the %s and the %s eat grass and sleep\nthe %s and the %s drive fast and stop\n' "$a" "$b" "$c" "$d"
done >"$out/text.txt"
gzip -k "$out/text.txt"
printf 'cat\tdog\t9\ncar bus 9.0\nHorse rabbit 9\ntruck train 9\ncat car 1\ndog bus 1\nhorse truck 1\ntrain rabbit 1\nking queen 7\n' \
  >"$out/judged.txt"
cp "$out/judged.txt" "$out/again.txt"

options=(--dim 20 --min-count 2 --subsample 0 --batch 4 --learning-rate 0.01)
train() {  # NAME ARGS: the program with --out $out/NAME; its words are in $out/NAME.log
  local name=$1
  shift
  timeout 120 "$build/words" "${options[@]}" --out "$out/$name" "$@" >"$out/$name.log" 2>&1 || fail "$name: exit code $?"
}
hash_of() { sed -n 's/.*weights sha256 \([0-9a-f]*\).*/\1/p' "$out/$1.log"; }

train whole --data "$out/text.txt" --rule sync --epochs 4 --similarity "$out/judged.txt" --similarity "$out/again.txt" --near cat
grep -q '^data: .*text.txt, 7200 words, 16 different ones at least 2 times$' "$out/whole.log" || fail 'other data'
grep -q '^judged.txt: 8 pairs, without 1 that have a word outside of the vocabulary$' "$out/whole.log" || fail 'other judgements'
agreement=$(sed -n 's/^judged.txt: rank correlation \([-0-9.]*\)$/\1/p' "$out/whole.log" | tail -n 1)
awk -v a="$agreement" 'BEGIN { exit !(a >= 0.87) }' || fail "judgements agree by ${agreement:-nothing}"
grep -Eq '^near cat: (dog|horse|rabbit) [01]\.[0-9]+, (dog|horse|rabbit) ' "$out/whole.log" || fail 'cat has other neighbours'
grep -q '^validation,4,' "$out/whole/curve.csv" || fail 'no curve of the validation'
grep -q '^again.txt,4,' "$out/whole/curve.csv" || fail 'no curve of the agreement'
tail -n 1 "$out/whole/curve.svg" | grep -q '^</svg>$' || fail 'no curve'
head -n 1 "$out/whole/vectors.txt" | grep -q '^16 20$' || fail 'other vectors'
[ "$(awk 'NR > 1 && NF == 21' "$out/whole/vectors.txt" | wc -l)" = 16 ] || fail 'vectors are cut'
[ -s "$out/whole/weights.safetensors" ] || fail 'no weights'

# The same bits from a gzipped file, in a training that is killed and resumed.
mkfifo "$out/lines"
"$build/words" "${options[@]}" --out "$out/cut" --data "$out/text.txt.gz" --rule sync --epochs 4 --similarity "$out/judged.txt" \
  >"$out/lines" 2>&1 &
pids=($!)
while IFS= read -r line; do
  case $line in 'sync epoch 2/4'*) kill -9 "${pids[0]}" ;; esac
done <"$out/lines"
wait "${pids[0]}" 2>"$out/ended"
pids=()
train cut --data "$out/text.txt.gz" --rule sync --epochs 4 --similarity "$out/judged.txt" --resume
grep -q 'resumed at step' "$out/cut.log" || fail 'did not resume'
[ "$(hash_of cut)" = "$(hash_of whole)" ] || fail 'resumed: other weights'
cmp -s "$out/cut/vectors.txt" "$out/whole/vectors.txt" || fail 'resumed: other vectors'
for i in 1 2 3 4; do grep -q "^judged.txt,$i," "$out/cut/curve.csv" || fail "resumed: epoch $i is not in the curve"; done

# And on a cluster, of which a worker and a ps are killed.
"$build/actor-node" up --ps 2 --workers 2 --threads 1 --run-dir "$out/run" "$build/words" "${options[@]}" --data "$out/text.txt" \
  --rule sync --epochs 4 --out "$out/spread" >"$out/lines" 2>&1 &
pids=($!)
while IFS= read -r line; do
  printf '%s\n' "$line"
  case $line in
    'sync epoch 1/4'*) kill -9 "$(<"$out/run/worker-1.pid")" ;;
    'sync epoch 2/4'*) [ -e "$out/killed" ] || kill -9 "$(<"$out/run/ps-0.pid")" && : >"$out/killed" ;;
  esac
done <"$out/lines" >"$out/spread.log"
wait "${pids[0]}" || fail "up: exit code $?"
pids=()
[ -e "$out/killed" ] || fail 'no ps was killed'
[ "$(hash_of spread)" = "$(hash_of whole)" ] || fail 'on a cluster: other weights'

train async --data "$out/text.txt" --rule async --epochs 2 --near car --tokens whitespace
grep -Eq '^near car: (bus|truck|train) ' "$out/async.log" || fail 'asynchronous: car has other neighbours'

: >"$out/empty.txt"
printf 'one one one one one one\n' >"$out/one.txt"
printf 'good\nb\377d\n' >"$out/bytes.txt"
printf 'cat dog 9\ncar bus\n' >"$out/hole.txt"
printf 'cat dog 9\ncar bus many\n' >"$out/many.txt"
printf 'cat dog 9\nking queen 9\n' >"$out/few.txt"
words=("$build/words" --out "$out/refused")
text=("${words[@]}" --data "$out/text.txt")
expect 0 '--similarity' "$build/words" --help
expect 64 'there is no option --colour' "$build/words" --colour red
expect 64 '--data is missing' "${words[@]}"
expect 64 '--dim wants at least 1, got 0' "${text[@]}" --dim 0
expect 64 '--negatives wants at least 1' "${text[@]}" --negatives 0
expect 64 '--tokens is words or whitespace' "${text[@]}" --tokens bpe
expect 64 'averag' "${text[@]}" --rule averag
expect 64 '--held-out wants 0, or 2 and more' "${text[@]}" --held-out 1
expect 64 '--learning-rate more than 0.0001' "${text[@]}" --learning-rate 0
expect 64 '--near zebra: the text does not have this word 5 times' "${text[@]}" --near zebra
expect 64 '--similarity has two files called judged.txt' "${text[@]}" --similarity "$out/judged.txt" --similarity "$out/judged.txt"
expect 74 'there is no file .*nowhere.txt' "${words[@]}" --data "$out/nowhere.txt"
expect 74 'there is no file .*nowhere.txt' "${text[@]}" --similarity "$out/nowhere.txt"
expect 65 'empty.txt has 0 different words' "${words[@]}" --data "$out/empty.txt"
expect 65 'one.txt has 1 different words; 1 stand there at least 5 times, and 2 are needed' "${words[@]}" --data "$out/one.txt"
expect 65 'bytes.txt: line 2: byte 1 (0xff) is not UTF-8' "${words[@]}" --data "$out/bytes.txt"
expect 65 'hole.txt: line 2: wants two words and a number, got 2 parts: car bus' "${text[@]}" --similarity "$out/hole.txt"
expect 65 'many.txt: line 2: wants two words and a number' "${text[@]}" --similarity "$out/many.txt"
expect 65 'few.txt: 1 of 2 pairs have both words in the vocabulary' "${text[@]}" --similarity "$out/few.txt"
expect 65 'the vectors grow without limit' "${text[@]}" --rule sync --min-count 2 --subsample 0 --learning-rate 0.1 --dim 20 --batch 8
printf "red green red green\n" >"$out/other.txt"
expect 78 "vocabulary" "$build/words" --out "$out/cut" --data "$out/other.txt" --min-count 2 --resume
# A run that is refused leaves the earlier training as it was.
expect 64 '--near zebra' "$build/words" --out "$out/cut" --data "$out/other.txt" --min-count 2 --near zebra
train cut --data "$out/text.txt.gz" --rule sync --epochs 4 --similarity "$out/judged.txt" --resume
[ "$(hash_of cut)" = "$(hash_of whole)" ] || fail 'resumed behind a refused run: other weights'
[ "$failures" = 0 ] || fail "$failures of $tried refusals are others"
echo "words learned, resumed and on a cluster: $(hash_of whole | cut -c 1-16), equal; $tried refusals"
