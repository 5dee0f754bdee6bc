# The program words beside gensim's Word2Vec: the same captions, cut into the same words, the same settings, one after the other and
# in turn; words a second, processor seconds, and the rank correlation with people's judgements.
#
# python words.py BUILD DATA [ROUNDS]: BUILD has the program; DATA has text/multi30k/ and text/word-similarity/. With gensim from
# bench/peers/install.sh; without it a line says so, and nothing is compared.

import glob
import gzip
import os
import re
import resource
import subprocess
import sys
import tempfile
import time

try:
    from gensim.models import Word2Vec
    from scipy.stats import spearmanr
except ImportError as missing:
    print(f"skipped: {missing}; bench/peers/install.sh installs gensim")
    sys.exit(0)

BUILD, DATA = sys.argv[1], sys.argv[2]
ROUNDS = int(sys.argv[3]) if len(sys.argv) > 3 else 1
EPOCHS, DIM, WINDOW, NEGATIVES, MIN_COUNT, SUBSAMPLE = 5, 100, 5, 5, 5, 1e-3
OUT = tempfile.mkdtemp()
TEXT = os.path.join(OUT, "captions.txt")
JUDGED = sorted(glob.glob(os.path.join(DATA, "text", "word-similarity", "*.txt")))


def cut():
    """Writes the captions as words with spaces between them; returns them as lists."""
    lines = []
    for path in sorted(glob.glob(os.path.join(DATA, "text", "multi30k", "captions.*.en.gz"))):
        with gzip.open(path, "rt") as file:
            lines += [re.findall(r"\w+|[^\w\s]", line.lower()) for line in file]
    if not lines:
        print(f"skipped: no data at {DATA}/text/multi30k")
        sys.exit(0)
    with open(TEXT, "w") as file:
        file.writelines(" ".join(line) + "\n" for line in lines)
    return lines


def show(name, words, seconds, processor, scores):
    agreement = ", ".join(f"{os.path.basename(path)} {score:.4f}" for path, score in zip(JUDGED, scores))
    print(f"{name:28} {words * EPOCHS / seconds:>10.0f} words/s {seconds:>7.2f} s {processor:>7.2f} s of processors   {agreement}", flush=True)


def agreement(vectors, path):
    pairs = [line.lower().split() for line in open(path)]
    known = [(vectors.similarity(a, b), float(score)) for a, b, score in pairs if a in vectors and b in vectors]
    return spearmanr(*zip(*known))[0]


def gensim(lines, workers):
    model = Word2Vec(vector_size=DIM, window=WINDOW, negative=NEGATIVES, sg=1, min_count=MIN_COUNT, sample=SUBSAMPLE, workers=workers)
    model.build_vocab(lines)
    begin, busy = time.time(), time.process_time()
    model.train(lines, total_examples=model.corpus_count, epochs=EPOCHS)
    show(f"gensim, {workers} threads", model.corpus_total_words, time.time() - begin, time.process_time() - busy,
         [agreement(model.wv, path) for path in JUDGED])


def ours(words, *more):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [os.path.join(BUILD, "words"), "--data", TEXT, "--tokens", "whitespace", "--dim", str(DIM), "--window", str(WINDOW), "--negatives",
         str(NEGATIVES), "--min-count", str(MIN_COUNT), "--subsample", str(SUBSAMPLE), "--epochs", str(EPOCHS), "--held-out", "0", "--out",
         os.path.join(OUT, "words"), *[w for path in JUDGED for w in ("--similarity", path)], *more],
        capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"words: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    speed = float(re.findall(r"^speed: (\d+)", done.stdout, re.M)[-1])
    scores = [float(re.findall(re.escape(os.path.basename(path)) + r": rank correlation ([-0-9.]+)", done.stdout)[-1]) for path in JUDGED]
    show("words" + "".join(" " + word for word in more), words, words * EPOCHS / speed, after.ru_utime - before.ru_utime, scores)


text = cut()
count = sum(map(len, text))
for _ in range(ROUNDS):
    gensim(text, 1)
    ours(count, "--replicas", "1")
    gensim(text, 2)
    ours(count)
    ours(count, "--rule", "sync")
