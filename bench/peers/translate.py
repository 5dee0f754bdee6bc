# The model of the program translate (--model gru) in PyTorch, on the same sentences and with batches of the same size: target tokens a
# second of both, in turn, with as many threads as there are processors (`taskset` chooses them).
#
# python translate.py BUILD DATA [PAIRS [ROUNDS]]: BUILD has the program; DATA is a folder with train.en.gz and train.fr.gz, such as
# multi30k's. With torch from bench/peers/install.sh; without it a line says so, and nothing is compared.

import gzip
import os
import random
import re
import resource
import subprocess
import sys
import tempfile
import time

try:
    import torch
    from torch import nn
    from torch.nn.functional import cross_entropy
except ImportError as missing:
    print(f"skipped: {missing}; bench/peers/install.sh installs PyTorch")
    sys.exit(0)

THREADS = len(os.sched_getaffinity(0))
UNITS, HEADS, DROPOUT, LONGEST, BATCH = 256, 4, 0.3, 64, 2000
BUILD, DATA = sys.argv[1], sys.argv[2]
PAIRS, ROUNDS = (int(v) for v in (sys.argv[3:] + ["4000", "3"][len(sys.argv) - 3:]))
torch.set_num_threads(THREADS)
torch.manual_seed(1)


def read(name, language):
    with gzip.open(os.path.join(DATA, f"{name}.{language}.gz"), "rt") as file:
        return file.read().split("\n")[:PAIRS]


class Pieces:
    """Pieces of words by the program's merges."""

    def __init__(self, folder):
        with open(os.path.join(folder, "merges.txt")) as file:
            self.rank = {tuple(line.split()): i for i, line in enumerate(file.read().split("\n")[1:]) if line}
        with open(os.path.join(folder, "vocabulary.txt")) as file:
            self.id = {word: i for i, word in enumerate(file.read().split("\n")) if word}
        self.known = {}

    def of_word(self, word):
        if word not in self.known:
            parts = list(word[:-1]) + [word[-1] + "</w>"]
            while len(parts) > 1:
                rank, at = min((self.rank.get(pair, 1 << 30), i) for i, pair in enumerate(zip(parts, parts[1:])))
                if rank == 1 << 30:
                    break
                parts[at:at + 2] = [parts[at] + parts[at + 1]]
            names = [p + "@@" for p in parts[:-1]] + [parts[-1].removesuffix("</w>")]
            self.known[word] = [self.id.get(name, 1) for name in names]
        return self.known[word]

    def ids(self, line):
        return [i for word in re.findall(r"\w+|[^\w\s]", line.lower()) for i in self.of_word(word)] + [3]


def batches(pairs):
    """As the program's: buckets by the length of the target, of about BATCH target tokens."""
    bounds, bound = [], 8
    while bound < LONGEST:
        bounds.append(bound)
        bound += max(2, bound // 10)
    bounds.append(LONGEST)
    open_ones, out = {}, []
    random.Random(1).shuffle(pairs)
    for pair in pairs:
        bound = next(b for b in bounds if b >= len(pair[1]))
        one = open_ones.setdefault(bound, [])
        one.append(pair)
        if len(one) == BATCH // bound:
            out.append(open_ones.pop(bound))
    out += open_ones.values()
    pad = lambda rows: nn.utils.rnn.pad_sequence([torch.tensor(r) for r in rows], batch_first=True)
    return [(pad([p[0] for p in one]), pad([p[1] for p in one])) for one in out]


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v = nn.Linear(UNITS, UNITS), nn.Linear(2 * UNITS, UNITS), nn.Linear(2 * UNITS, UNITS)
        self.out = nn.Linear(UNITS, UNITS)

    def forward(self, queries, memory, mask):
        heads = lambda x: x.unflatten(2, (HEADS, -1)).transpose(1, 2)
        y = nn.functional.scaled_dot_product_attention(heads(self.q(queries)), heads(self.k(memory)), heads(self.v(memory)), mask)
        return self.out(y.transpose(1, 2).flatten(2))


class Network(nn.Module):
    def __init__(self, tokens):
        super().__init__()
        self.table = nn.Parameter(torch.randn(tokens, UNITS) / UNITS**0.5)
        self.bias = nn.Parameter(torch.zeros(tokens))
        self.encoder = nn.GRU(UNITS, UNITS, bidirectional=True, batch_first=True)
        self.state = nn.Linear(2 * UNITS, UNITS)
        self.below, self.above = nn.GRU(UNITS, UNITS, batch_first=True), nn.GRU(2 * UNITS, UNITS, batch_first=True)
        self.attention, self.out, self.drop = Attention(), nn.Linear(2 * UNITS, UNITS), nn.Dropout(DROPOUT)

    def embedded(self, ids):
        return self.drop(nn.functional.embedding(ids, self.table) * UNITS**0.5)

    def forward(self, source, target):
        mask = source != 0
        packed = nn.utils.rnn.pack_padded_sequence(self.embedded(source), mask.sum(1), batch_first=True, enforce_sorted=False)
        memory, h = self.encoder(packed)
        memory, _ = nn.utils.rnn.pad_packed_sequence(memory, batch_first=True)
        first = torch.tanh(self.state(torch.cat([h[0], h[1]], 1)))[None]
        below, _ = self.below(self.embedded(target[:, :-1]), first)
        context = self.attention(below, self.drop(memory), mask[:, None, None])
        above, _ = self.above(self.drop(torch.cat([below, context], 2)), first)
        x = self.drop(torch.tanh(self.out(self.drop(torch.cat([above, context], 2)))))
        labels = target[:, 1:]
        chosen = labels != 0
        logits = nn.functional.linear(x[chosen], self.table, self.bias)
        return cross_entropy(logits, labels[chosen], label_smoothing=0.1), int(chosen.sum())


def cpu(who):
    used = resource.getrusage(who)
    return used.ru_utime + used.ru_stime


def ours(folder, out):
    """Target tokens a second, of time and of processor time, in the second epoch."""
    words = [os.path.join(BUILD, "translate"), "--data", folder, "--out", out]
    used = []
    for epochs in ("1", "3"):
        begin = cpu(resource.RUSAGE_CHILDREN)
        done = subprocess.run([*words, "--epochs", epochs], capture_output=True, text=True)
        if done.returncode:
            sys.exit(done.stdout + done.stderr)
        used.append(cpu(resource.RUSAGE_CHILDREN) - begin)
    tokens = int(re.search(r"(\d+) target tokens,", done.stdout)[1])
    rates = [float(v) for v in re.findall(r"(\d+) target tokens/s", done.stdout)]
    return max(rates[1:]), 2 * tokens / (used[1] - used[0])


def main():
    with tempfile.TemporaryDirectory() as folder:
        for part, most in (("train", PAIRS), ("val", 4), ("test", 4)):
            for language in ("en", "fr"):
                with open(os.path.join(folder, f"{part}.{language}"), "w") as file:
                    file.writelines(line + "\n" for line in read("train", language)[:most])
        out = os.path.join(folder, "out")
        mine = [ours(folder, out)]
        pieces = Pieces(out)
        pairs = [(pieces.ids(a), [2] + pieces.ids(b)) for a, b in zip(read("train", "en"), read("train", "fr"))]
        data = batches([p for p in pairs if max(map(len, p)) <= LONGEST])
        network = Network(len(pieces.id))
        adam = torch.optim.Adam(network.parameters(), 0.002, (0.9, 0.98))
        print(f"PyTorch {torch.__version__}, {sum(p.numel() for p in network.parameters())} parameters, {len(data)} batches", flush=True)
        for turn in range(ROUNDS):
            if turn > 0:
                mine.append(ours(folder, out))
            tokens, begin, used = 0, time.time(), cpu(resource.RUSAGE_SELF)
            for source, target in data:
                adam.zero_grad()
                loss, count = network(source, target)
                loss.backward()
                nn.utils.clip_grad_norm_(network.parameters(), 1)
                adam.step()
                tokens += count
            peer = tokens / (time.time() - begin), tokens / (cpu(resource.RUSAGE_SELF) - used)
            print(f"target tokens/s: Troupe {mine[-1][0]:.0f}, PyTorch {peer[0]:.0f}, ratio {mine[-1][0] / peer[0]:.2f}; "
                  f"of processor time: {mine[-1][1]:.0f}, {peer[1]:.0f}, {mine[-1][1] / peer[1]:.2f}; loss {loss.item():.3f}", flush=True)


main()
