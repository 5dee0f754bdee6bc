# The program `language` beside PyTorch: the same text, windows, model, first values by distribution, optimizer and number of steps.
#
# python language.py BUILD TEXT [EPOCHS [SEEDS]]: TEXT is plain or gzipped, of characters. For both models and each seed it prints the
# validation perplexity of both sides after each epoch, and the tokens a second of training and validation on two threads, one side after
# the other. The program has two towers, each with half of a batch, whose gradients are clipped apart.
# With PyTorch from bench/peers/install.sh; without it a line says so, and nothing is compared.

import gzip
import math
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

try:
    import torch
    import torch.nn.functional as F
    from torch import nn
except ImportError as missing:
    print(f"skipped: {missing}; bench/peers/install.sh installs PyTorch")
    sys.exit(0)

BUILD, TEXT = sys.argv[1], sys.argv[2]
EPOCHS = int(sys.argv[3]) if len(sys.argv) > 3 else 3
SEEDS = int(sys.argv[4]) if len(sys.argv) > 4 else 1
UNITS, LAYERS, HEADS, LENGTH, BATCH, RATE, CLIP = 256, 2, 4, 64, 32, 0.002, 1.0
torch.set_num_threads(2)


def windows():
    """Inputs and targets as the program cuts them: the last tenth of the windows is for validation; 0 stands for rare characters."""
    with (gzip.open if TEXT.endswith(".gz") else open)(TEXT, "rt", encoding="utf-8", newline="") as file:
        text = file.read()
    counts = {c: text.count(c) for c in set(text)}
    ids = {c: i + 1 for i, c in enumerate(sorted(c for c in counts if counts[c] >= 2))}
    tokens = torch.tensor([ids.get(c, 0) for c in text])
    count = (len(tokens) - 1) // LENGTH
    inputs = tokens[:count * LENGTH].view(count, LENGTH)
    targets = tokens[1:count * LENGTH + 1].view(count, LENGTH)
    kept = count - count // 10
    return inputs[:kept], targets[:kept], inputs[kept:], targets[kept:], len(ids) + 4


class Lstm(nn.Module):
    def __init__(self, tokens):
        super().__init__()
        self.embedding = nn.Embedding(tokens, UNITS)
        self.lstm = nn.LSTM(UNITS, UNITS, LAYERS, batch_first=True)
        self.logits = nn.Linear(UNITS, tokens)
        for name, value in self.lstm.named_parameters():
            if "weight_ih" in name:
                nn.init.xavier_uniform_(value)
            elif "weight_hh" in name:
                nn.init.orthogonal_(value)
            else:  # one vector of biases a layer, with 1 for the forget gate
                nn.init.zeros_(value)
                value.requires_grad_("bias_ih" in name)
                if "bias_ih" in name:
                    value.data[UNITS:2 * UNITS] = 1
        nn.init.xavier_uniform_(self.logits.weight)
        nn.init.zeros_(self.logits.bias)

    def forward(self, ids):
        return self.logits(self.lstm(self.embedding(ids))[0])


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.before, self.between = nn.LayerNorm(UNITS), nn.LayerNorm(UNITS)
        self.query_key_value, self.out = nn.Linear(UNITS, 3 * UNITS), nn.Linear(UNITS, UNITS)
        self.wide, self.narrow = nn.Linear(UNITS, 4 * UNITS), nn.Linear(4 * UNITS, UNITS)
        for layer in (self.query_key_value, self.out, self.wide, self.narrow):
            for weight in layer.weight.data.split(UNITS) if layer is self.query_key_value else [layer.weight]:
                nn.init.xavier_uniform_(weight)
            nn.init.zeros_(layer.bias)

    def forward(self, x):
        batch, time_steps, _ = x.shape
        q, k, v = (part.view(batch, time_steps, HEADS, -1).transpose(1, 2)
                   for part in self.query_key_value(self.before(x)).split(UNITS, 2))
        seen = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(x.shape)
        x = x + self.out(seen)
        return x + self.narrow(F.gelu(self.wide(self.between(x))))


class Transformer(nn.Module):
    def __init__(self, tokens):
        super().__init__()
        self.embedding = nn.Embedding(tokens, UNITS)
        self.position = nn.Parameter(torch.empty(LENGTH, UNITS))
        self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.norm, self.logits = nn.LayerNorm(UNITS), nn.Linear(UNITS, tokens)
        for value in (self.embedding.weight, self.position):
            nn.init.normal_(value, 0, 0.02)
        nn.init.xavier_uniform_(self.logits.weight)
        nn.init.zeros_(self.logits.bias)

    def forward(self, ids):
        return self.logits(self.norm(self.blocks(self.embedding(ids) + self.position)))


def loss_of(model, inputs, targets):
    return F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())


def theirs(kind, seed, data):
    torch.manual_seed(seed)
    inputs, targets, held_inputs, held_targets, tokens = data
    model = {"lstm": Lstm, "transformer": Transformer}[kind](tokens)
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.Adam(trained, RATE, fused=True)
    seconds, perplexities = 0.0, []
    for _ in range(EPOCHS):
        begin = time.time()
        for rows in torch.randperm(len(inputs)).split(BATCH):
            loss = loss_of(model, inputs[rows], targets[rows])
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(trained, CLIP)
            optimizer.step()
            loss.item()
        with torch.no_grad():
            sums = sum(loss_of(model, i, t).item() * len(i)
                       for i, t in zip(held_inputs.split(BATCH), held_targets.split(BATCH)))
        seconds += time.time() - begin
        perplexities.append(math.exp(sums / len(held_inputs)))
    return perplexities, EPOCHS * inputs.numel() / seconds


def ours(kind, seed, data):
    with tempfile.TemporaryDirectory() as out:
        words = [os.path.join(BUILD, "language"), "--data", TEXT, "--model", kind, "--epochs", str(EPOCHS), "--seed", str(seed),
                 "--units", str(UNITS), "--layers", str(LAYERS), "--heads", str(HEADS), "--length", str(LENGTH), "--batch", str(BATCH),
                 "--learning-rate", str(RATE), "--clip", str(CLIP), "--replicas", "2", "--sample", "1", "--out", out]
        done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(words)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    epochs = re.findall(r"epoch \d+/.* perplexity ([0-9.]+).*, ([0-9.]+) s$", done.stdout, re.M)
    return [float(perplexity) for perplexity, _ in epochs], EPOCHS * data[0].numel() / sum(float(s) for _, s in epochs)


data = windows()
print(f"{len(data[0])} windows to train on, {len(data[2])} for validation, {data[4]} tokens")
for kind in ("lstm", "transformer"):
    last, rates = [], []
    for seed in range(1, SEEDS + 1):
        (mine, my_rate), (other, other_rate) = ours(kind, seed, data), theirs(kind, seed, data)
        print(f"{kind:12} seed {seed}: perplexity " + ", ".join(f"{a:.4g} ({b:.4g})" for a, b in zip(mine, other)) +
              f"; {my_rate:,.0f} tokens/s ({other_rate:,.0f} of PyTorch), ratio {my_rate / other_rate:.2f}", flush=True)
        last.append((mine[-1], other[-1]))
        rates.append(my_rate / other_rate)
    a, b = (statistics.mean(side) for side in zip(*last))
    print(f"{kind:12} mean: perplexity {a:.4f} ({b:.4f}), {100 * (a / b - 1):+.2f} %; rate {statistics.median(rates):.2f} times PyTorch's")
