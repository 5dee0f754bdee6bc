#!/usr/bin/env bash
# The program captions learns sentences on scenes of the digits that ship, takes encoders over,
# resumes, gives the same weights on a cluster, and says what is wrong with digits. Argument: the
# build folder.
set -uo pipefail
# shellcheck source=tests/support/app_test.sh
source "$(dirname "${BASH_SOURCE[0]}")/../support/app_test.sh"

gunzip -c "$data" >"$out/digits.csv"
head -n 601 "$out/digits.csv" >"$out/few.csv"
few=(--data "$out/few.csv" --canvas 20 --digits 2 --passes 2 --units 24 --batch 32 --pretrain 20 --decay-every 100)
train() {  # NAME ARGS: the program with --out $out/NAME; its words are in $out/NAME.log
  local name=$1
  shift
  timeout 120 "$build/captions" --out "$out/$name" "$@" >"$out/$name.log" 2>&1 || fail "$name: exit code $?"
}
hash_of() { sed -n 's/^sync:.*weights sha256 \([0-9a-f]*\).*/\1/p' "$out/$1.log"; }
share() { sed -n "s/^test: .* \([0-9.]*\) % $1.*/\1/p" "$out/$2.log"; }  # WORDS NAME: a percentage of the test
at_least() {  # LEAST GOT NAME
  awk -v least="$1" -v got="$2" 'BEGIN { exit !(got != "" && got + 0 >= least) }' || fail "$3: ${2:-missing}, wanted at least $1"
}

train learned --data "$out/digits.csv" --canvas 14 --digits 1 --passes 6 --units 48 --pretrain 150 --epochs 3 --learning-rate 0.003
at_least 80 "$(share 'exact sentences,' learned)" 'exact sentences on one digit'
at_least 90 "$(share 'right words' learned)" 'right words on one digit'
grep -q '^exact sentences of validation,3,' "$out/learned/curve.csv" || fail 'no curve of the validation'
tail -n 1 "$out/learned/curve.svg" "$out/learned/scenes.svg" | grep -c '^</svg>$' | grep -q 2 || fail 'a picture is cut short'
grep -Eq '>an? [a-z]+ at the ((top|bottom)( left| right)?|left|right|middle)</text>' "$out/learned/scenes.svg" || fail 'no sentence on the sheet'

# The same bits in one run, in two, and on a cluster, whose workers compose scenes themselves.
train whole "${few[@]}" --epochs 2
grep -q '^data: .*few.csv, 432 training and 120 test digits; scenes of 20 x 20 pixels, 25 words$' "$out/whole.log" || fail 'other data'
grep -q '^encoder: 8 parameters of .*/whole/encoder.safetensors$' "$out/whole.log" || fail 'the encoder was not taken over'
train cut "${few[@]}" --epochs 1
train cut "${few[@]}" --epochs 2 --resume
grep -q 'resumed at step 14' "$out/cut.log" || fail 'did not resume at step 14'
[ -n "$(hash_of whole)" ] && [ "$(hash_of cut)" = "$(hash_of whole)" ] || fail 'resumed: other weights'
up=("$build/actor-node" up --ps 2 --workers 2 --threads 1)
timeout 120 "${up[@]}" --plugin "$build/captions_ops.so" "$build/captions" --out "$out/spread" "${few[@]}" --epochs 2 \
  >"$out/spread.log" 2>&1 || fail "up: exit code $?"
[ "$(hash_of spread)" = "$(hash_of whole)" ] || fail 'on a cluster: other weights'
cmp -s "$out/spread/scenes.svg" "$out/whole/scenes.svg" || fail 'on a cluster: other sentences'
expect 78 'only /job:client.* has scene()' "${up[@]}" "$build/captions" --out "$out/refused" "${few[@]}"

# An encoder of another program, of which two layers fit; a frozen one keeps its bits.
timeout 120 "$build/transfer" --data "$out/digits.csv" --steps 20 --new-steps 10 --out "$out/transfer" >"$out/transfer.log" 2>&1 || fail "transfer: exit code $?"
train other "${few[@]}" --epochs 1 --encoder "$out/transfer/checkpoint-old" --encoder-scope '' --rule async
grep -q '^encoder: 4 parameters of .*, encoder/conv3/b is new, encoder/conv3/w is new, ' "$out/other.log" || fail 'the layers of transfer were not taken over'
train frozen "${few[@]}" --epochs 1 --freeze --encoder "$out/whole/encoder.safetensors"
train again "${few[@]}" --epochs 1 --freeze --encoder "$out/frozen/weights.safetensors"
[ -n "$(hash_of again)" ] && [ "$(hash_of again)" = "$(hash_of frozen)" ] || fail 'a frozen encoder has changed'

# Mistakes of a user. IDX files of 40 pictures of 8 x 8 pixels with one dot, of the digits 0 to 9.
idx() {  # FOLDER NAME: with labels 0 to 9 in turn, or those of the file labels in the current folder
  mkdir -p "$1"
  { printf '\0\0\10\3\0\0\0\50\0\0\0\10\0\0\0\10'; for ((i = 0; i < 40; ++i)); do printf '%063d\377' 0 | tr 0 '\0'; done; } >"$1/$2-images-idx3-ubyte"
  { printf '\0\0\10\1\0\0\0\50'; for ((i = 0; i < 40; ++i)); do printf "\\x0$((i % 10))"; done; } >"$1/$2-labels-idx1-ubyte"
}
for part in train t10k; do idx "$out/idx" $part; done
captions=("$build/captions" --out "$out/refused" --pretrain 0 --epochs 1)
expect 0 '--encoder-scope' "$build/captions" --help
expect 64 'there is no option --colour' "$build/captions" --colour red
expect 64 '--digits wants 1 to 4, got 9' "${captions[@]}" --digits 9
expect 64 '--batch wants a multiple of the 3 replicas' "${captions[@]}" --replicas 3
expect 64 '--freeze wants an encoder that has learnt' "${captions[@]}" --freeze
expect 74 'nowhere' "${captions[@]}" --data "$out/nowhere"
mkdir "$out/empty"
expect 74 'empty has no train-images-idx3-ubyte or train-images-idx3-ubyte.gz' "${captions[@]}" --data "$out/empty"
expect 0 '^test: 10 scenes' "${captions[@]}" --data "$out/idx" --held-out 7 --batch 4 --passes 1
cp -r "$out/idx" "$out/shorter"
{ printf '\0\0\10\1\0\0\0\47'; tail -c 39 "$out/idx/train-labels-idx1-ubyte"; } >"$out/shorter/train-labels-idx1-ubyte"
expect 65 'shorter/train-labels-idx1-ubyte has 39 records, .* has 40' "${captions[@]}" --data "$out/shorter"
cp -r "$out/idx" "$out/twelve"
{ head -c 47 "$out/idx/t10k-labels-idx1-ubyte"; printf '\14'; } >"$out/twelve/t10k-labels-idx1-ubyte"
expect 65 'twelve/t10k-labels-idx1-ubyte: record 40 has the label 12; wanted is a digit, 0 to 9' "${captions[@]}" --data "$out/twelve"
cp -r "$out/idx" "$out/none"
sed -i 's/\x07/\x01/g' "$out/none/train-labels-idx1-ubyte"
expect 65 'none/train-labels-idx1-ubyte: no training picture shows the digit 7' "${captions[@]}" --data "$out/none"
cp -r "$out/idx" "$out/blank"
tr '\377' '\0' <"$out/idx/train-images-idx3-ubyte" >"$out/blank/train-images-idx3-ubyte"
expect 65 'blank/train-images-idx3-ubyte.*has no ink' "${captions[@]}" --data "$out/blank" --held-out 7 --batch 4 --passes 1
expect 65 'found no place for [34] digits on a canvas of 14 x 14 pixels; give a larger canvas or fewer' "${captions[@]}" --canvas 14 --passes 1
expect 78 'has no encoder/conv1/b (as head/conv1/b)' "${captions[@]}" --passes 1 --encoder "$out/transfer/checkpoint-old" --encoder-scope head
expect 64 'no checkpoint in .*nowhere.safetensors; give .* a .safetensors or .npz file' "${captions[@]}" --passes 1 --encoder "$out/nowhere.safetensors"
[ "$failures" = 0 ] || fail "$failures of $tried refusals are others"
echo "sentences learned, resumed, on a cluster and with encoders: $(hash_of whole | cut -c 1-16), equal; $tried refusals"
