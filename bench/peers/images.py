# The program `images` beside PyTorch: the same JPEG files, crops, mirrors, network, optimizer and batches.
#
# python images.py BUILD DATA [EPOCHS]: DATA has train.tar.gz and test.tar.gz. Prints for both sides the seconds of each epoch, input included,
# and the accuracy on the test pictures after it. PyTorch decodes with torchvision, in the main process or in as many processes as is fastest.
# With PyTorch and torchvision from bench/peers/install.sh; without them a line says so, and nothing is compared.

import os
import re
import subprocess
import sys
import tarfile
import tempfile
import time

try:
    import torch
    import torch.nn.functional as F
    from torch import nn
    from torchvision.io import ImageReadMode, decode_jpeg
except ImportError as missing:
    print(f"skipped: {missing}; bench/peers/install.sh installs PyTorch and torchvision")
    sys.exit(0)

BUILD, DATA = sys.argv[1], sys.argv[2]
EPOCHS = int(sys.argv[3]) if len(sys.argv) > 3 else 2
BATCH, RATE, DECAY = 128, 0.1, 1e-4
torch.set_num_threads(2)
torch.manual_seed(1)


class Pictures(torch.utils.data.Dataset):
    """The files of an archive, as bytes in memory; decoded, and for training cropped and mirrored, when they are asked for."""

    def __init__(self, part, training):
        with tarfile.open(os.path.join(DATA, part + ".tar.gz")) as archive:
            files = [(m.name.split("/")[-2], archive.extractfile(m).read()) for m in archive if m.isfile()]
        classes = sorted({name for name, _ in files})
        self.files = [(torch.frombuffer(bytearray(data), dtype=torch.uint8), classes.index(name)) for name, data in files]
        self.training = training

    def __len__(self):
        return len(self.files)

    def __getitem__(self, at):
        data, label = self.files[at]
        picture = decode_jpeg(data, ImageReadMode.RGB)
        if self.training:
            top, left, mirrored = torch.randint(9, (3,)).tolist()
            picture = F.pad(picture, (4, 4, 4, 4))[:, top:top + 32, left:left + 32]
            if mirrored % 2:
                picture = picture.flip(2)
        return picture, label


def numbers(pictures):
    return ((pictures.float() / 255 - 0.5) / 0.25).contiguous(memory_format=torch.channels_last)


class Layer(nn.Module):
    def __init__(self, before, after, stride=1, window=3):
        super().__init__()
        self.convolution = nn.Conv2d(before, after, window, stride, window // 2, bias=False)
        self.norm = nn.BatchNorm2d(after)
        nn.init.kaiming_normal_(self.convolution.weight, nonlinearity="relu")

    def forward(self, x):
        return self.norm(self.convolution(x))


class Block(nn.Module):
    def __init__(self, before, after, stride):
        super().__init__()
        self.first, self.second = Layer(before, after, stride), Layer(after, after)
        self.past = nn.Identity() if before == after else Layer(before, after, stride, 1)

    def forward(self, x):
        return F.relu(self.second(F.relu(self.first(x))) + self.past(x))


def resnet20():
    blocks = [Block(b, a, 1 if i or a == 16 else 2) for before, a in ((16, 16), (16, 32), (32, 64))
              for i, b in enumerate((before, a, a))]
    return nn.Sequential(Layer(3, 16), nn.ReLU(), *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))


def fastest_loader(train):
    """A loader with the number of processes that reads an epoch's first hundred batches and trains beside them in the least time."""
    def seconds(workers):
        model, loader = resnet20().to(memory_format=torch.channels_last), loader_of(train, workers)
        batches = iter(loader)
        next(batches)
        begin = time.time()
        for _, (x, y) in zip(range(50), batches):
            F.cross_entropy(model(numbers(x)), y).backward()
        return time.time() - begin
    tried = {workers: seconds(workers) for workers in (0, 1, 2)}
    best = min(tried, key=tried.get)
    print("PyTorch's loader, seconds for 50 steps by number of processes: "
          + ", ".join(f"{k}: {v:.1f}" for k, v in tried.items()), flush=True)
    return loader_of(train, best)


def loader_of(pictures, workers):
    return torch.utils.data.DataLoader(pictures, BATCH, shuffle=pictures.training, num_workers=workers, persistent_workers=workers > 0)


def theirs():
    train, test = Pictures("train", True), Pictures("test", False)
    loader, test_loader = fastest_loader(train), loader_of(test, 0)
    model = resnet20().to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), RATE, 0.9, weight_decay=DECAY)
    rows = []
    for _ in range(EPOCHS):
        begin = time.time()
        model.train()
        for x, y in loader:
            loss = F.cross_entropy(model(numbers(x)), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            loss.item()
        model.eval()
        with torch.no_grad():
            right = sum((model(numbers(x)).argmax(1) == y).sum().item() for x, y in test_loader)
        rows.append((time.time() - begin, 100 * right / len(test)))
    return rows


def ours():
    with tempfile.TemporaryDirectory() as out:
        words = [os.path.join(BUILD, "images"), "--data", DATA, "--epochs", str(EPOCHS), "--held-out", "0", "--batch", str(BATCH),
                 "--learning-rate", str(RATE), "--weight-decay", str(DECAY), "--decay-at", str(EPOCHS), "--out", out]
        done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(words)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    found = re.findall(r"epoch \d+/.* accuracy ([0-9.]+),.*, ([0-9.]+) s$", done.stdout, re.M)
    return [(float(seconds), 100 * float(accuracy)) for accuracy, seconds in found]


mine, other = ours(), theirs()
for epoch, ((a, right), (b, their_right)) in enumerate(zip(mine, other), 1):
    print(f"epoch {epoch}: {a:.1f} s, {right:.2f} % ({b:.1f} s, {their_right:.2f} % of PyTorch), {b / a:.2f} times as fast")
