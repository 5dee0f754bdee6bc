#!/usr/bin/env bash
# The program translate learns a small language with both networks, resumes, gives the same weights and
# translations on a cluster, translates a file, and says what is wrong with texts. Argument: the build
# folder.
set -uo pipefail
# shellcheck source=tests/support/app_test.sh
source "$(dirname "${BASH_SOURCE[0]}")/../support/app_test.sh"

# A sentence in each language for each number: adjectives change their place.
pair() {  # NUMBER
  local i=$1
  local animals=(cat dog bird horse) betes=(chat chien oiseau cheval) colours=(red blue green) couleurs=(rouge bleu vert)
  local verbs=(sees hears finds) verbes=(voit entend trouve)
  local a=$((i % 4)) b=$((i / 4 % 4)) c=$((i / 16 % 3)) v=$((i / 48 % 3))
  echo "A ${colours[c]} ${animals[a]} ${verbs[v]} the ${animals[b]}."
  echo "Un ${betes[a]} ${couleurs[c]} ${verbes[v]} le ${betes[b]}." >&3
}
write() {  # FOLDER PART NUMBERS...
  local folder=$1 part=$2 i
  shift 2
  mkdir -p "$folder"
  for i in "$@"; do pair "$i"; done >"$folder/$part.en" 3>"$folder/$part.fr"
}
train_numbers=() held_numbers=()
for ((i = 0; i < 144; ++i)); do
  if ((i % 7 == 3)); then held_numbers+=("$i"); else train_numbers+=("$i" "$i"); fi
done
write "$out/data" train "${train_numbers[@]}"
write "$out/data" val "${held_numbers[@]:0:10}"
write "$out/data" test "${held_numbers[@]:10}"
gzip -k "$out/data/test.fr" && rm "$out/data/test.fr"

small=(--units 32 --heads 2 --merges 60 --batch 400 --learning-rate 0.01 --warm-up 10 --dropout 0.1 --length 24 --beams 3 --average 2)
train() {  # NAME ARGS: the program with --out $out/NAME; its words are in $out/NAME.log
  local name=$1
  shift
  timeout 120 "$build/translate" "${small[@]}" --out "$out/$name" "$@" >"$out/$name.log" 2>&1 || fail "$name: exit code $?"
}
hash_of() { sed -n 's/.*weights sha256 \([0-9a-f]*\).*/\1/p' "$out/$1.log"; }
bleu_at_least() {  # LEAST NAME
  local got
  got=$(sed -n 's/^test: BLEU \([0-9.]*\) .*/\1/p' "$out/$2.log")
  awk -v a="$got" -v least="$1" 'BEGIN { exit !(a != "" && a >= least) }' || fail "$2: BLEU ${got:-missing}, wanted at least $1"
}

train whole --data "$out/data" --epochs 12
grep -q '^data: .*data, 246 pairs of sentences, ' "$out/whole.log" || fail 'other data'
bleu_at_least 90 whole
[ "$(wc -l <"$out/whole/test.txt")" = 11 ] || fail 'not all sentences are translated'
cmp -s "$out/whole/reference.tokens" <(zcat "$out/data/test.fr.gz" | tr 'A-Z' 'a-z' | sed 's/\./ ./') || fail 'other references'
grep -Eq '^sync step 1/84  loss [0-9.]+  [0-9.e+-]+ steps/s  ETA [0-9]+ s$' "$out/whole.log" || fail 'no progress line'
grep -q '^validation perplexity,12,' "$out/whole/curve.csv" || fail 'no curve of the validation'
tail -n 1 "$out/whole/curve.svg" | grep -q '^</svg>$' || fail 'no curve'

# The same bits in two runs, and on a cluster.
train cut --data "$out/data" --epochs 5
train cut --data "$out/data" --epochs 12 --resume
grep -q 'resumed at step' "$out/cut.log" || fail 'did not resume'
[ "$(hash_of cut)" = "$(hash_of whole)" ] || fail 'resumed: other weights'
cmp -s "$out/cut/weights.safetensors" "$out/whole/weights.safetensors" || fail 'resumed: another average'
cmp -s "$out/cut/test.txt" "$out/whole/test.txt" || fail 'resumed: other translations'
timeout 240 "$build/actor-node" up --ps 2 --workers 2 --threads 1 "$build/translate" "${small[@]}" --data "$out/data" --epochs 12 \
  --out "$out/spread" >"$out/spread.log" 2>&1 || fail "up: exit code $?"
[ "$(hash_of spread)" = "$(hash_of whole)" ] || fail 'on a cluster: other weights'
cmp -s "$out/spread/test.txt" "$out/whole/test.txt" || fail 'on a cluster: other translations'

train transformer --data "$out/data" --model transformer --layers 1 --epochs 16
bleu_at_least 80 transformer
train async --data "$out/data" --rule async --epochs 1
grep -q '^async epoch 1/1: loss ' "$out/async.log" || fail 'no asynchronous epoch'

# A file with the weights of a training: an empty line stays, a long one is cut.
{ head -n 2 "$out/data/test.en"; echo; for _ in {1..30}; do printf 'a red cat sees the dog '; done; echo; } >"$out/lines.en"
translate=("$build/translate" "${small[@]}" --out "$out/whole")
expect 0 '1 sentences are longer than 24 pieces and were cut, the first in line 4' "${translate[@]}" --translate "$out/lines.en"
cmp -s <(head -n 2 "$out/whole/translation.txt") <(head -n 2 "$out/whole/test.txt") || fail 'a file is translated in another way'
[ -z "$(sed -n 3p "$out/whole/translation.txt")" ] || fail 'an empty line is translated'
[ "$(wc -l <"$out/whole/translation.txt")" = 4 ] || fail 'lines are missing'
expect 78 'weights.safetensors and the graph differ: ' "$build/translate" --out "$out/whole" --length 24 --translate "$out/lines.en"
expect 74 'there is no file .*nowhere.en' "${translate[@]}" --translate "$out/nowhere.en"
printf 'good\nb\377d\n' >"$out/bytes.en"
expect 65 'bytes.en: line 2: byte 1 (0xff) is not UTF-8' "${translate[@]}" --translate "$out/bytes.en"
expect 74 'weights.safetensors is missing; train first' "$build/translate" --out "$out/untrained" --translate "$out/lines.en"

corpus() {  # NAME: a copy of the data
  mkdir -p "$out/$1" && cp "$out/data"/* "$out/$1"
}
corpus uneven && tail -n +2 "$out/data/train.fr" >"$out/uneven/train.fr"
corpus bytes && printf 'b\377d\n' >>"$out/bytes/train.fr" && echo bad >>"$out/bytes/train.en"
corpus empty && : >"$out/empty/train.en" && : >"$out/empty/train.fr"
corpus blank && yes '' | head -n 246 >"$out/blank/train.fr"
corpus holes && printf '\nso\n' >>"$out/holes/train.en" && printf 'vide\n%s\n' "$(yes le | head -n 40 | tr '\n' ' ')" >>"$out/holes/train.fr"
mkdir "$out/nothing"
bare=("$build/translate" --out "$out/refused" --data "$out/data")
refused=("$build/translate" "${small[@]}" --out "$out/refused" --epochs 1)
expect 0 'left out: 1 with an empty side, the first in line 247; 1 longer than 24 pieces, the first in line 248' "${refused[@]}" --data "$out/holes"
expect 0 '--length-penalty' "$build/translate" --help
expect 64 'there is no option --colour' "$build/translate" --colour red
expect 64 '--data is missing' "${refused[@]}"
expect 64 '--model is gru or transformer' "${bare[@]}" --model lstm
expect 64 '--units wants a multiple of the 5 heads' "${bare[@]}" --heads 5
expect 64 '--length wants at least 4' "${bare[@]}" --length 3
expect 64 'want at least 1' "${bare[@]}" --beams 0
expect 64 '--decay wants' "${bare[@]}" --decay 0
expect 74 'nothing has no train.en or train.en.gz' "${refused[@]}" --data "$out/nothing"
expect 74 'data has no train.de' "${refused[@]}" --data "$out/data" --to de
expect 74 'data has no newstest.en' "${refused[@]}" --data "$out/data" --test newstest
expect 65 'train.fr' "${refused[@]}" --data "$out/uneven"
expect 65 'train.fr: line 247: byte 1 (0xff) is not UTF-8' "${refused[@]}" --data "$out/bytes"
expect 65 'have no words' "${refused[@]}" --data "$out/empty"
expect 65 'no pair of sentences is left: 246 with an empty side, the first in line 1' "${refused[@]}" --data "$out/blank"
expect 78 'vocabulary' "$build/translate" --out "$out/cut" --data "$out/data" --merges 20 --resume
# A run that is refused leaves the earlier training as it was.
expect 65 'train.fr' "$build/translate" "${small[@]}" --out "$out/cut" --data "$out/uneven"
train cut --data "$out/data" --epochs 12 --resume
[ "$(hash_of cut)" = "$(hash_of whole)" ] || fail 'resumed behind a refused run: other weights'
[ "$failures" = 0 ] || fail "$failures of $tried refusals are others"
echo "a language learned, resumed and on a cluster: $(hash_of whole | cut -c 1-16), equal; $tried refusals"
