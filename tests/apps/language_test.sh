#!/usr/bin/env bash
# The program language learns a small text as characters and as pieces of words, with both networks,
# resumes, gives the same weights on a cluster, and says what is wrong with a text. Argument: the build
# folder.
set -uo pipefail
# shellcheck source=tests/support/app_test.sh
source "$(dirname "${BASH_SOURCE[0]}")/../support/app_test.sh"

animals=(cat lion lion) places=(mat mat mat mat mat rug rug)
for ((i = 0; i < 400; ++i)); do
  printf 'the %s sat on the %s.\n' "${animals[i % 3]}" "${places[i % 7]}"
done >"$out/text.txt"
gzip -k "$out/text.txt"
tail -n 60 "$out/text.txt" >"$out/other.txt"

train() {  # NAME ARGS: the program with --out $out/NAME; its words are in $out/NAME.log
  local name=$1
  shift
  timeout 120 "$build/language" --units 32 --length 16 --batch 16 --learning-rate 0.01 --sample 90 --out "$out/$name" "$@" \
    >"$out/$name.log" 2>&1 || fail "$name: exit code $?"
}
hash_of() { sed -n 's/.*weights sha256 \([0-9a-f]*\).*/\1/p' "$out/$1.log"; }
perplexity_at_most() {  # MOST NAME: of the validation, in the end
  local got
  got=$(sed -n 's/.*validation perplexity \([0-9.e+]*\).*/\1/p' "$out/$2.log" | tail -n 1)
  awk -v a="$got" -v most="$1" 'BEGIN { exit !(a != "" && a >= 1 && a + 0 <= most) }' || fail "$2: perplexity ${got:-missing}, wanted at most $1"
}

# The cat or lion, the mat or rug are all that cannot be known.
train whole --data "$out/text.txt" --epochs 4
grep -q '^data: .*text.txt, 555 windows of 16 characters, 61 for validation, 21 different ones$' "$out/whole.log" || fail 'other data'
perplexity_at_most 1.2 whole
grep -Eq '^the (cat|lion) sat on the (mat|rug)\.$' "$out/whole/sample.txt" || fail 'no sentence is written'
[ "$(wc -m <"$out/whole/sample.txt")" = 90 ] || fail 'the sample has another length'
grep -q '^validation,4,' "$out/whole/curve.csv" || fail 'no curve of the validation'
tail -n 1 "$out/whole/curve.svg" | grep -q '^</svg>$' || fail 'no curve'

# The same bits from a gzipped file, in two runs, and on a cluster.
train cut --data "$out/text.txt.gz" --epochs 2
train cut --data "$out/text.txt.gz" --epochs 4 --resume
grep -q 'resumed at step 70' "$out/cut.log" || fail 'did not resume at step 70'
[ "$(hash_of cut)" = "$(hash_of whole)" ] || fail 'resumed: other weights'
cmp -s "$out/cut/sample.txt" "$out/whole/sample.txt" || fail 'resumed: another sample'
timeout 120 "$build/actor-node" up --ps 2 --workers 2 --threads 1 "$build/language" --units 32 --length 16 --batch 16 \
  --learning-rate 0.01 --sample 90 --data "$out/text.txt" --epochs 4 --out "$out/spread" >"$out/spread.log" 2>&1 || fail "up: exit code $?"
[ "$(hash_of spread)" = "$(hash_of whole)" ] || fail 'on a cluster: other weights'
cmp -s "$out/spread/sample.txt" "$out/whole/sample.txt" || fail 'on a cluster: another sample'

train transformer --data "$out/text.txt" --model transformer --dropout 0.1 --epochs 6
perplexity_at_most 1.6 transformer
grep -Eq '^the (cat|lion) sat on the (mat|rug)\.$' "$out/transformer/sample.txt" || fail 'the transformer writes no sentence'
train pieces --data "$out/text.txt" --tokens bpe --merges 40 --validation "$out/other.txt" --epochs 6
perplexity_at_most 1.6 pieces
grep -Eq '^the (cat|lion) sat on the (mat|rug)\.$' "$out/pieces/sample.txt" || fail 'pieces are no sentence'
train async --data "$out/text.txt" --rule async --epochs 1
grep -q '^async epoch 1/1: loss ' "$out/async.log" || fail 'no asynchronous epoch'

: >"$out/empty.txt"
printf 'good\nb\377d\n' >"$out/bytes.txt"
head -c 100 "$out/text.txt" >"$out/short.txt"
head -c 60 "$out/text.txt.gz" >"$out/cut.txt.gz"
language=("$build/language" --out "$out/refused")
expect 0 '--temperature' "$build/language" --help
expect 64 'there is no option --colour' "$build/language" --colour red
expect 64 '--data is missing' "${language[@]}"
expect 64 '--model is lstm or transformer' "${language[@]}" --data "$out/text.txt" --model gru
expect 64 '--tokens is characters or bpe' "${language[@]}" --data "$out/text.txt" --tokens words
expect 64 '--batch wants a multiple of the 3 replicas' "${language[@]}" --data "$out/text.txt" --replicas 3
expect 64 '--units wants a multiple of the 4 heads' "${language[@]}" --data "$out/text.txt" --model transformer --units 30
expect 64 '--plateau 0 or more epochs' "${language[@]}" --data "$out/text.txt" --plateau=-1
expect 74 'there is no file .*nowhere.txt' "${language[@]}" --data "$out/nowhere.txt"
expect 74 'no file matches .*nowhere' "${language[@]}" --data "$out/nowhere*"
mkdir "$out/nothing"
expect 74 'the folder .*nothing has no files' "${language[@]}" --data "$out/nothing"
expect 65 'empty.txt has no text in it' "${language[@]}" --data "$out/empty.txt"
expect 65 'bytes.txt: line 2: byte 1 (0xff) is not UTF-8' "${language[@]}" --data "$out/bytes.txt"
expect 65 'bytes.txt: line 2' "${language[@]}" --data "$out/text.txt" --validation "$out/bytes.txt"
expect 65 'cut.txt.gz: the .gz is cut short' "${language[@]}" --data "$out/cut.txt.gz"
expect 65 'short.txt: 1 windows of 64 tokens to train on and 0 for validation' "${language[@]}" --data "$out/short.txt"
# A run that is refused leaves the checkpoints and tokens of an earlier one as they were.
expect 65 'other.txt: .* windows of 999 tokens' "$build/language" --out "$out/cut" --data "$out/other.txt" --tokens bpe --length 999
expect 78 'are of: characters, a vocabulary of 21 .*; this run is of: bpe' "$build/language" --out "$out/cut" --data "$out/other.txt" \
  --tokens bpe --resume
train cut --data "$out/text.txt.gz" --epochs 4 --resume
[ "$(hash_of cut)" = "$(hash_of whole)" ] || fail 'after a refusal: other weights'
[ "$failures" = 0 ] || fail "$failures of $tried refusals are others"
echo "a text learned, resumed and on a cluster: $(hash_of whole | cut -c 1-16), equal; $tried refusals"
