#!/usr/bin/env bash
# The program images learns stripes from pictures in folders and archives, resumes, gives the same
# weights on a cluster, and says what is wrong with pictures. Argument: the build folder.
set -uo pipefail
# shellcheck source=tests/support/app_test.sh
source "$(dirname "${BASH_SOURCE[0]}")/../support/app_test.sh"

# Grey PNG files of 8 x 8 pixels: stripes of two positions and shades, in rows and in columns.
head='iVBORw0KGgoAAAANSUhEUgAAAAgAAAAICAAAAADhZOFX'
rows=('AAAAEUlEQVR42mNggIH/UMBAlggA7IUf4SSviB4AAAAASUVORK5CYII='
  'AAAAEUlEQVR42mNggIEtUMBAlggAxSYWgenoAPgAAAAASUVORK5CYII='
  'AAAAEElEQVR42mP4DwUMcECWCAALgx/hP9ui4QAAAABJRU5ErkJggg=='
  'AAAAEElEQVR42mPYAgUMcECWCACPtRaBzKeKpQAAAABJRU5ErkJggg==')
columns=('AAAADklEQVR42mNg+A+FlDEAbBQf4alpY3AAAAAASUVORK5CYII='
  'AAAADklEQVR42mNg2AKFlDEAHzUWgcsOfkMAAAAASUVORK5CYII='
  'AAAAD0lEQVR42mP4zwCBDJQxAIv0H+Eif5qJAAAAAElFTkSuQmCC'
  'AAAAD0lEQVR42mPYwgCBDJQxADW1FoHhXwg5AAAAAElFTkSuQmCC')
pictures() {  # FOLDER COPIES: pictures of both classes, each so many times
  local class picture copy
  for class in rows columns; do
    mkdir -p "$1/$class"
    local -n list=$class
    for picture in "${!list[@]}"; do
      for ((copy = 0; copy < $2; ++copy)); do
        printf '%s%s' "$head" "${list[picture]}" | base64 -d >"$1/$class/$picture-$copy.png"
      done
    done
  done
}

pictures "$out/data/train" 4
pictures "$out/data/test" 1
train() {  # NAME ARGS: the program with --out $out/NAME; its words are in $out/NAME.log
  local name=$1
  shift
  timeout 120 "$build/images" --blocks 1 --batch 16 --learning-rate 0.05 --out "$out/$name" "$@" >"$out/$name.log" 2>&1 ||
    fail "$name: exit code $?"
}
hash_of() { sed -n 's/.*weights sha256 \([0-9a-f]*\).*/\1/p' "$out/$1.log"; }

train whole --data "$out/data" --epochs 8 --held-out 4
grep -q '^data: .*2 classes of pictures \[8, 8, 3\], 2 steps an epoch' "$out/whole.log" || fail 'other data'
grep -q '^sync epoch 8/8: loss .*, validation accuracy ' "$out/whole.log" || fail 'no line for an epoch'
grep -q '^test: accuracy 100.00 %' "$out/whole.log" || fail 'stripes were not learned'
grep -q '^validation accuracy,8,' "$out/whole/curve.csv" || fail 'no curve of the validation'
[ -s "$out/whole/curve.svg" ] && [ -s "$out/whole/weights.safetensors" ] || fail 'a file is missing'

# Archives, resumed on the way; a cluster whose workers read them.
mkdir "$out/archives"
tar -C "$out/data" -czf "$out/archives/train.tar.gz" --sort=name train
tar -C "$out/data" -cf "$out/archives/test.tar" --sort=name test
train cut --data "$out/archives" --epochs 4 --decay-at 4.5 --decay-at 100 --held-out 4
train cut --data "$out/archives" --epochs 8 --decay-at 4.5 --decay-at 100 --held-out 4 --resume
grep -q 'resumed at step 8' "$out/cut.log" || fail 'did not resume at step 8'
train fixed --data "$out/data" --epochs 8 --decay-at 4.5 --decay-at 100 --held-out 4
[ "$(hash_of cut)" = "$(hash_of fixed)" ] || fail 'resumed, or from an archive: other weights'
timeout 120 "$build/actor-node" up --ps 2 --workers 2 --threads 1 "$build/images" --blocks 1 --batch 16 --learning-rate 0.05 \
  --held-out 4 --data "$out/archives" --epochs 8 --decay-at 4.5 --decay-at 100 --out "$out/spread" >"$out/spread.log" 2>&1 || fail "up: exit code $?"
[ "$(hash_of spread)" = "$(hash_of fixed)" ] || fail 'on a cluster: other weights'
train inception --data "$out/data" --network inception --epochs 1 --rule async --held-out 0
grep -q '^async epoch 1/1: loss ' "$out/inception.log" || fail 'no inception'
grep -q 'test loss,1,' "$out/inception/curve.csv" || fail 'no curve of the test pictures'
timeout 60 "$build/images" --data "$out/data" --read-only --held-out 0 >"$out/read.log" 2>&1
grep -q '^reading: 32 pictures in ' "$out/read.log" || fail 'did not read the pictures'

images=("$build/images" --out "$out/refused")
expect 64 '--data is missing' "${images[@]}"
expect 64 '--network is resnet or inception' "${images[@]}" --data "$out/data" --network vgg
expect 64 '--batch wants a multiple of the 3 replicas' "${images[@]}" --data "$out/data" --replicas 3
expect 64 '--replicas wants at least 1, got 0' "${images[@]}" --data "$out/data" --replicas 0
expect 64 '--decay-at wants epochs above 0, each above the one before, got 2' \
  "${images[@]}" --data "$out/data" --decay-at 3 --decay-at 2
expect 64 '--warm-up of 9 steps does not end before the rate falls; an epoch has 2 steps' "${images[@]}" --data "$out/data" \
  --batch 16 --held-out 4 --decay-at 1 --warm-up 9
expect 74 'has no train, train.tar or train.tar.gz' "${images[@]}" --data "$out"
mkdir -p "$out/empty/train" "$out/empty/test"
expect 65 'empty/train has no pictures; wanted are files CLASS/NAME' "${images[@]}" --data "$out/empty"
cp -r "$out/data" "$out/classes"
rm -r "$out/classes/test/rows"
expect 65 'classes/test: there is no picture of the class rows' "${images[@]}" --data "$out/classes" --epochs 1
cp -r "$out/data" "$out/damaged"
truncate -s 60 "$out/damaged/train/rows/2-1.png"
expect 65 'damaged/train/rows/2-1.png' "${images[@]}" --data "$out/damaged" --epochs 1
cp -r "$out/archives" "$out/short"
truncate -s 300 "$out/short/train.tar.gz"
expect 65 'short/train.tar.gz' "${images[@]}" --data "$out/short" --epochs 1
[ "$failures" = 0 ] || fail "$failures of $tried refusals are others"
echo "stripes learned, resumed, on a cluster and from archives: $(hash_of fixed | cut -c 1-16), equal; $tried refusals"
