#!/usr/bin/env bash
# Training on files in MNIST's format with synthetic images: plain and packed files give the same
# weights, and damaged ones are refused by name. A loss that is not a number ends the run and keeps
# its earlier checkpoints. Argument: the build folder.
# slow
set -euo pipefail
# shellcheck source=tests/support/app_test.sh
source "$(dirname "${BASH_SOURCE[0]}")/../support/app_test.sh"

# FOLDER: 200 training and 40 test images of 28 x 28, and their labels.
perl -e '
  my ($dir) = @ARGV;
  srand(7);
  sub file { open(my $f, ">:raw", "$dir/$_[0]") or die; print $f $_[1]; close $f; }
  for (["train", 200], ["t10k", 40]) {
    my ($name, $n) = @$_;
    my @labels = map { $_ % 10 } 1 .. $n;
    my $pixels = join "", map { my $l = $_; join "", map { chr(($_ * ($l + 1) + int(rand(40))) % 256) } 1 .. 784 } @labels;
    file("$name-images-idx3-ubyte", pack("N4", 0x803, $n, 28, 28) . $pixels);
    file("$name-labels-idx1-ubyte", pack("N2", 0x801, $n) . pack("C*", @labels));
  }
' "$(mkdir -p "$out/plain" && echo "$out/plain")"
cp -r "$out/plain" "$out/packed"
gzip -n "$out/packed/"*
for kind in plain packed; do
  "$build/train_digits" --data "$out/$kind" --steps 6 --out "$out/run-$kind" >"$out/$kind.log" 2>&1 || fail "$kind files: exit code $?"
  grep -q '^data: MNIST, 200 training, 0 validation and 40 test images' "$out/$kind.log" || fail "$kind files: other data"
done
weights=$(sync_hash "$out/plain.log")
[ -n "$weights" ] && [ "$weights" = "$(sync_hash "$out/packed.log")" ] || fail 'packed files give other weights'

refused() {  # CODE TEXT FOLDER
  local code=0
  "$build/train_digits" --data "$3" --steps 2 --out "$out/x" >"$out/log" 2>&1 || code=$?
  [ "$code" = "$1" ] && grep -q -- "$2" "$out/log" || fail "expected exit $1 and \"$2\", got exit $code"
}
cp -r "$out/plain" "$out/cut" && truncate -s -1 "$out/cut/train-images-idx3-ubyte"
refused 65 'train-images-idx3-ubyte: at byte 16: the sizes ask for 156800 bytes' "$out/cut"
cp -r "$out/plain" "$out/other" && cp "$out/plain/t10k-labels-idx1-ubyte" "$out/other/train-labels-idx1-ubyte"
refused 65 'train-labels-idx1-ubyte\|200' "$out/other"
cp -r "$out/packed" "$out/flipped"
printf '\377' | dd of="$out/flipped/train-images-idx3-ubyte.gz" bs=1 seek=4000 conv=notrunc status=none
refused 65 'train-images-idx3-ubyte.gz: ' "$out/flipped"
rm "$out/packed/t10k-labels-idx1-ubyte.gz"
refused 74 't10k-labels-idx1-ubyte' "$out/packed"

# The loss becomes not a number: the earlier checkpoints are whole.
"$build/train_digits" --digits "$data" --steps 20 --out "$out/nan" >"$out/log" 2>&1 || fail 'the run before failed'
code=0
"$build/train_digits" --digits "$data" --steps 60 --out "$out/nan" --resume --learning-rate 1e30 >"$out/log" 2>&1 || code=$?
[ "$code" = 65 ] && grep -q 'learning rate' "$out/log" || fail "a loss that is no number: exit code $code"
"$build/train_digits" --digits "$data" --steps 20 --out "$out/nan" --resume >"$out/after.log" 2>&1 || fail 'its checkpoint cannot be used any more'
grep -q 'resumed at step 20' "$out/after.log" || fail 'the checkpoint of step 20 has gone'
echo "MNIST files, plain and packed: ${weights:0:16}, equal; damaged ones named; a NaN leaves the checkpoints"
