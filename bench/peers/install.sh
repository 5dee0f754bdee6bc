#!/usr/bin/env bash
# Installs PyTorch with torchvision, TensorFlow, Ray, scikit-learn, sacrebleu and gensim from the Python package index into a virtual environment
# outside of the tree, for `./dev bench train --peers` and the scripts of this folder: in $TROUPE_PEERS, or ~/.cache/troupe/peers. Takes some
# GiB and a few minutes; delete the folder to be rid of it.
set -euo pipefail
folder=${TROUPE_PEERS:-${XDG_CACHE_HOME:-$HOME/.cache}/troupe/peers}
python3 -m venv "$folder"
"$folder/bin/pip" install --no-cache-dir torch torchvision tensorflow-cpu "ray[train]" scikit-learn sacrebleu gensim
"$folder/bin/python" -c 'import torch, tensorflow; print("PyTorch", torch.__version__, "and TensorFlow", tensorflow.__version__)'
printf 'installed in %s\n' "$folder"
