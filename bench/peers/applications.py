# The programs of apps/ beside scikit-learn, on the same data, one after the other: result and seconds of both.
#
# python applications.py BUILD DATA [NAME...]: BUILD has the programs; DATA has mnist/, tabular/ and text/, of which sets that are
# missing are left out. With scikit-learn from bench/peers/install.sh; without it a line says so, and nothing is compared.

import csv
import gzip
import os
import re
import subprocess
import sys
import tempfile
import time

try:
    import numpy as np
    from sklearn.cluster import KMeans
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.feature_extraction.text import HashingVectorizer
    from sklearn.linear_model import LogisticRegression, SGDClassifier
    from sklearn.metrics import log_loss
    from sklearn.preprocessing import StandardScaler
except ImportError as missing:
    print(f"skipped: {missing}; bench/peers/install.sh installs scikit-learn")
    sys.exit(0)

BUILD, DATA = sys.argv[1], sys.argv[2]
THREADS = 2
OUT = tempfile.mkdtemp()


def ours(*words):
    """The output of a program, and the seconds it took."""
    begin = time.time()
    done = subprocess.run([os.path.join(BUILD, words[0]), *words[1:], "--out", OUT], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(words)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout, time.time() - begin


def number(pattern, text):
    return float(re.findall(pattern + r" *([-+0-9.e]+)", text)[-1])


def show(name, data, figure, mine, seconds, peer, peer_seconds):
    print(f"{name:12} {data:16} {figure:34} {mine:>14.9g} {seconds:>9.2f} s {peer:>14.9g} {peer_seconds:>9.2f} s "
          f"{peer_seconds / seconds:>7.2f}", flush=True)


def table(path):
    """Records and labels, and which are for testing, as the programs divide them."""
    with gzip.open(path, "rt") as file:
        rows = np.loadtxt(file, delimiter=",", skiprows=1)
    test = np.arange(len(rows)) % 5 == 4
    return rows[:, :-1], rows[:, -1], test


def idx(path, head):
    with gzip.open(path) as file:
        return np.frombuffer(file.read(), np.uint8, offset=head)


def mnist(part):
    folder = os.path.join(DATA, "mnist")
    images = idx(f"{folder}/{part}-images-idx3-ubyte.gz", 16).reshape(-1, 784)
    return images.astype(np.float32) / 255, idx(f"{folder}/{part}-labels-idx1-ubyte.gz", 8)


def tables(*names):
    for name in names:
        path = os.path.join(DATA, "tabular", name + ".csv.gz")
        if os.path.exists(path):
            yield name, path
        else:
            print(f"skipped: no data at {path}")


def has_mnist():
    there = os.path.exists(os.path.join(DATA, "mnist"))
    if not there:
        print(f"skipped: no data at {DATA}/mnist")
    return there


def regression():
    for name, path in tables("breast_cancer", "digits", "wine"):
        text, _ = ours("regression", "--data", path)
        seconds = number(r"steps in", text)
        x, y, test = table(path)
        scale = StandardScaler().fit(x[~test])
        train, held = scale.transform(x[~test]), scale.transform(x[test])
        begin = time.time()
        peer = LogisticRegression(C=1, tol=1e-9, max_iter=100000).fit(train, y[~test])
        peer_seconds = time.time() - begin
        with open(os.path.join(OUT, "coefficients.csv")) as file:
            mine = np.array([[float(v) for v in row[1:]] for row in list(csv.reader(file))[1:-1]]).T
        show("regression", name, "largest difference of coefficients", np.abs(mine - peer.coef_).max(), seconds, 0, peer_seconds)
        show("regression", name, "log loss, training", number(r"training: .* log loss", text), seconds,
             log_loss(y[~test], peer.predict_proba(train)), peer_seconds)
        show("regression", name, "log loss, test", number(r"test: .* log loss", text), seconds,
             log_loss(y[test], peer.predict_proba(held)), peer_seconds)


def lines():
    files = [os.path.join(DATA, "text", "multi30k", "train.en.gz"), os.path.join(DATA, "text", "wikitext-2", "valid.txt.gz")]
    if not all(map(os.path.exists, files)):
        print(f"skipped: no data at {files}")
        return
    epochs = 5
    words = [w for f in files for w in ("--text", f)]
    text, _ = ours("regression", *words, "--epochs", str(epochs), "--rule", "async")
    fit, whole = number(r"steps in", text), number(r"training took", text)
    begin = time.time()
    all_lines, labels = [], []
    for label, f in enumerate(files):
        with gzip.open(f, "rt") as file:
            some = [line for line in file.read().split("\n") if line]
        all_lines += some
        labels += [(label, (i + 1) % 10 == 0) for i in range(len(some))]
    y, test = np.array([v[0] for v in labels]), np.array([v[1] for v in labels])
    x = HashingVectorizer(n_features=2**18, alternate_sign=False, norm=None, binary=False).transform(all_lines)
    hashed = time.time()
    peer = SGDClassifier(loss="log_loss", max_iter=epochs, tol=None, random_state=1).fit(x[~test], y[~test])
    end = time.time()
    accuracy = number(r"test: .* accuracy", text)
    show("regression", "lines of text", "accuracy, %; training alone", accuracy, fit, 100 * peer.score(x[test], y[test]), end - hashed)
    show("regression", "lines of text", "accuracy, %; with reading, hashing", accuracy, whole, 100 * peer.score(x[test], y[test]), end - begin)


def kmeans():
    sets = [(name, path, table(path)[0].astype(np.float32), k) for name, path in tables("digits", "wine", "iris", "breast_cancer")
            for k in [{"digits": 10, "breast_cancer": 2}.get(name, 3)]]
    if has_mnist():
        sets.append(("mnist", os.path.join(DATA, "mnist"), mnist("train")[0], 10))
    for name, path, x, k in sets:
        text, _ = ours("kmeans", "--data", path, "--k", str(k), "--at-once", str(THREADS))
        begin = time.time()
        peer = KMeans(k, n_init=10, random_state=1).fit(x)
        show("kmeans", name, f"inertia, best of 10, k = {k}", number(r"best: start \d+, inertia", text),
             number(r"inertia [0-9.e+]+,", text), peer.inertia_, time.time() - begin)


def forest():
    sets = [(name, path, *table(path)) for name, path in tables("digits", "breast_cancer", "wine")]
    sets = [(n, p, x[~t], y[~t], x[t], y[t], 5) for n, p, x, y, t in sets]
    if has_mnist():
        sets.append(("mnist", os.path.join(DATA, "mnist"), *mnist("train"), *mnist("t10k"), 1))
    for name, path, x, y, test_x, test_y, seeds in sets:
        mine, peers, seconds, peer_seconds = [], [], 0, 0
        for seed in range(1, seeds + 1):
            text, _ = ours("forest", "--data", path, "--seed", str(seed), "--at-once", str(THREADS))
            mine.append(number(r"test: .* accuracy", text))
            seconds += number(r"on average in", text)
            begin = time.time()
            peer = RandomForestClassifier(100, n_jobs=THREADS, random_state=seed).fit(x, y)
            peers.append(100 * peer.score(test_x, test_y))
            peer_seconds += time.time() - begin
        show("forest", name, f"accuracy, %, mean of {seeds} seeds", np.mean(mine), seconds, np.mean(peers), peer_seconds)


def bayes():
    """The linear posterior in closed form, by numpy from the file alone."""
    for name, path in tables("diabetes"):
        text, _ = ours("bayes", "--data", path)
        begin = time.time()
        x, y, test = table(path)
        x = np.hstack([StandardScaler().fit(x[~test]).transform(x[~test]), np.ones((np.sum(~test), 1))])
        y = (y[~test] - y[~test].mean()) / y[~test].std()
        w = np.linalg.lstsq(x, y, rcond=None)[0]
        noise = np.sum((y - x @ w) ** 2) / (len(x) - x.shape[1])
        covariance = np.linalg.inv(np.eye(x.shape[1]) + x.T @ x / noise)
        mean, deviation = covariance @ x.T @ y / noise, np.sqrt(np.diag(covariance))
        exact = time.time() - begin
        with open(os.path.join(OUT, "posterior.csv")) as file:
            rows = np.array([[float(v) for v in row] for row in list(csv.reader(file))[1:]])
        for kind, at in (("variational", 3), ("langevin", 5)):
            show("bayes", name, f"{kind}: worst mean, in deviations", np.abs((rows[:, at] - mean) / deviation).max(),
                 number(r"steps in", text), 0, exact)
            show("bayes", name, f"{kind}: worst deviation, relative", np.abs(rows[:, at + 1] / deviation - 1).max(),
                 number(r"steps in", text), 0, exact)


def warm_up():
    """The first fit of a library loads code and begins threads; a row compares the fits after it."""
    x, y = np.random.default_rng(1).random((200, 4)), np.arange(200) % 2
    KMeans(2, n_init=1).fit(x)
    for peer in (RandomForestClassifier(4, n_jobs=THREADS), LogisticRegression(), SGDClassifier(loss="log_loss")):
        peer.fit(x, y).predict_proba(x)


PROGRAMS = {"regression": regression, "lines": lines, "kmeans": kmeans, "forest": forest, "bayes": bayes}
print(f"{'program':12} {'data':16} {'figure':34} {'Troupe':>14} {'':11} {'peer':>14} {'':11} {'ratio':>7}")
warm_up()
for program in sys.argv[3:] or PROGRAMS:
    PROGRAMS[program]()
