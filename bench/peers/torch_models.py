# The models of bench/models.cpp in PyTorch, eager or compiled. Images are channels-last, which is
# the faster layout on CPUs; a step returns the loss as a number, as ours does.
import torch
import torch.nn.functional as F


def use_threads(threads):
    torch.set_num_threads(threads)
    torch.set_num_interop_threads(1)


class Model(torch.nn.Module):
    def __init__(self, weights):
        super().__init__()
        self.fed = {}
        for name, value in weights.items():
            tensor = torch.from_numpy(value.copy())
            if name in ("x", "labels", "words", "next", "features"):
                if tensor.dim() == 4:
                    tensor = tensor.permute(0, 3, 1, 2).contiguous(memory_format=torch.channels_last)
                self.fed[name] = tensor
                continue
            if tensor.dim() == 4:  # [h, w, in, out] -> [out, in, h, w]
                tensor = tensor.permute(3, 2, 0, 1).contiguous(memory_format=torch.channels_last)
            elif tensor.dim() == 2 and name[0] == "w":  # [in, out] -> [out, in]
                tensor = tensor.t().contiguous()
            self.register_parameter(name, torch.nn.Parameter(tensor))

    def get(self, kind, number):
        return getattr(self, f"{kind}{number}")

    def dense(self, x, number):
        return F.linear(x, self.get("w", number), self.get("b", number))

    def convolution(self, x, number):
        w = self.get("w", number)
        return F.relu(F.conv2d(x, w, self.get("b", number), padding=w.shape[2] // 2))

    def classified(self, logits):
        return F.cross_entropy(logits, self.fed["labels"])


class Mlp(Model):
    def forward(self):
        x = F.relu(self.dense(self.fed["x"], 0))
        return self.classified(self.dense(F.relu(self.dense(x, 1)), 2))


class Cnn(Model):
    def forward(self):
        x = F.max_pool2d(self.convolution(self.fed["x"], 0), 2)
        x = F.max_pool2d(self.convolution(x, 1), 2)
        x = x.permute(0, 2, 3, 1).reshape(64, -1)  # rows as the weights have them
        return self.classified(self.dense(F.relu(self.dense(x, 2)), 3))


class ResNet20(Model):
    def layer(self, x, number, stride=1):
        if stride == 2:  # one row and column of zeros in all, at the end, as the other programs have it
            x = F.pad(x, (0, 1, 0, 1))
        y = F.conv2d(x, self.get("w", number), stride=stride, padding=2 - stride)
        return F.batch_norm(y, None, None, self.get("gamma", number), self.get("beta", number), training=True)

    def forward(self):
        x = F.relu(self.layer(self.fed["x"], 0))
        number = 1
        for channels in (16, 32, 64):
            for _ in range(3):
                wider = x.shape[1] < channels
                y = F.relu(self.layer(x, number, 2 if wider else 1))
                y = self.layer(y, number + 1)
                number += 2
                if wider:
                    x = F.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, channels // 4, channels // 4))
                x = F.relu(y + x)
        return self.classified(self.dense(x.mean((2, 3)), 19))


class Inception(Model):
    def block(self, x, first):
        return torch.cat(
            (
                self.convolution(x, first),
                self.convolution(self.convolution(x, first + 1), first + 2),
                self.convolution(self.convolution(x, first + 3), first + 4),
                self.convolution(F.max_pool2d(x, 3, 1, 1), first + 5),
            ),
            1,
        )

    def forward(self):
        x = self.block(self.block(self.fed["x"], 0), 6)
        return self.classified(self.dense(x.mean((2, 3)), 12))


class Lstm(Model):
    """With the fused torch.nn.LSTM; its second bias stays 0, as ours has one."""

    def __init__(self, weights):
        super().__init__(weights)
        self.lstm = torch.nn.LSTM(200, 200, 2)
        with torch.no_grad():
            for n in (0, 1):
                getattr(self.lstm, f"weight_ih_l{n}").copy_(self.get("wx", n))
                getattr(self.lstm, f"weight_hh_l{n}").copy_(self.get("wh", n))
                getattr(self.lstm, f"bias_ih_l{n}").copy_(self.get("b", n))
                getattr(self.lstm, f"bias_hh_l{n}").zero_()
                getattr(self.lstm, f"bias_hh_l{n}").requires_grad_(False)
        for n in (0, 1):
            for kind in ("wx", "wh", "b"):
                delattr(self, f"{kind}{n}")
        self.softmax_w = torch.nn.Parameter(self.softmax_w.data.t().contiguous())

    def forward(self):
        x = F.embedding(self.fed["words"], self.embedding)
        x = self.lstm(x)[0].reshape(700, 200)
        return F.cross_entropy(F.linear(x, self.softmax_w, self.softmax_b), self.fed["next"])


class Gpt(Model):
    def forward(self):
        def norm(x, n):
            return F.layer_norm(x, (256,), self.get("gamma", n), self.get("beta", n))

        x = F.embedding(self.fed["words"], self.embedding) + self.positions
        for block in range(4):
            qkv = self.dense(norm(x, 2 * block), 4 * block).split(256, dim=2)
            q, k, v = (part.view(8, 128, 4, 64).transpose(1, 2) for part in qkv)
            heads = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.dense(heads.transpose(1, 2).reshape(8, 128, 256), 4 * block + 1)
            wide = F.gelu(self.dense(norm(x, 2 * block + 1), 4 * block + 2), approximate="tanh")
            x = x + self.dense(wide, 4 * block + 3)
        return F.cross_entropy(self.dense(norm(x, 8), 16).view(1024, 8000), self.fed["next"])


class SparseLr(Model):
    """With row-sparse gradients."""

    def __init__(self, weights):
        super().__init__(weights)
        self.w = torch.nn.Parameter(self.w.data.reshape(-1, 1))

    def forward(self):
        scores = F.embedding_bag(self.fed["features"], self.w, mode="sum", sparse=True).squeeze(1)
        return F.binary_cross_entropy_with_logits(scores + self.b, self.fed["labels"])


MODELS = {
    "mlp": (Mlp, 0.01, 0),
    "cnn": (Cnn, 0.01, 0),
    "resnet20": (ResNet20, 0.02, 0.9),
    "inception": (Inception, 0.1, 0),
    "lstm": (Lstm, 1.0, 0),
    "gpt": (Gpt, 0.001, None),  # adam
    "sparse-lr": (SparseLr, 1.0, 0),
}


def make_step(name, weights, compiled):
    kind, rate, momentum = MODELS[name]
    model = kind(weights)
    trained = [p for p in model.parameters() if p.requires_grad]
    if momentum is None:
        optimizer = torch.optim.Adam(trained, lr=rate, fused=True)
    else:
        optimizer = torch.optim.SGD(trained, lr=rate, momentum=momentum)
    forward = torch.compile(model) if compiled else model

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = forward()
        loss.backward()
        optimizer.step()
        return loss.item()

    return step
