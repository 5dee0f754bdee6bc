# The models of bench/models.cpp in TensorFlow, as a graph, or compiled by XLA (jit). A step is one
# call of a graph that reads, updates and returns the loss; it returns it as a number, as ours does.
import tensorflow as tf


def use_threads(threads):
    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(threads)


class Model:
    def __init__(self, weights):
        self.fed, self.trained = {}, {}
        for name, value in weights.items():
            if name in ("x", "labels", "words", "next", "features"):
                self.fed[name] = tf.constant(value)
            else:
                self.trained[name] = tf.Variable(value, name=name)

    def get(self, kind, number):
        return self.trained[f"{kind}{number}"]

    def dense(self, x, number):
        return tf.nn.bias_add(tf.matmul(x, self.get("w", number)), self.get("b", number))

    def convolution(self, x, number):
        y = tf.nn.conv2d(x, self.get("w", number), 1, "SAME")
        return tf.nn.relu(tf.nn.bias_add(y, self.get("b", number)))

    def classified(self, logits, labels):
        return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))


class Mlp(Model):
    def loss(self, fed):
        x = tf.nn.relu(self.dense(fed["x"], 0))
        return self.classified(self.dense(tf.nn.relu(self.dense(x, 1)), 2), fed["labels"])


class Cnn(Model):
    def loss(self, fed):
        x = tf.nn.max_pool2d(self.convolution(fed["x"], 0), 2, 2, "VALID")
        x = tf.nn.max_pool2d(self.convolution(x, 1), 2, 2, "VALID")
        x = tf.nn.relu(self.dense(tf.reshape(x, (64, -1)), 2))
        return self.classified(self.dense(x, 3), fed["labels"])


class ResNet20(Model):
    def layer(self, x, number, stride=1):
        y = tf.nn.conv2d(x, self.get("w", number), stride, "SAME")
        return tf.compat.v1.nn.fused_batch_norm(
            y, self.get("gamma", number), self.get("beta", number), epsilon=1.001e-5, is_training=True
        )[0]

    def loss(self, fed):
        x = tf.nn.relu(self.layer(fed["x"], 0))
        number = 1
        for channels in (16, 32, 64):
            for _ in range(3):
                wider = x.shape[3] < channels
                y = tf.nn.relu(self.layer(x, number, 2 if wider else 1))
                y = self.layer(y, number + 1)
                number += 2
                if wider:
                    some = channels // 4
                    x = tf.pad(x[:, ::2, ::2, :], ((0, 0), (0, 0), (0, 0), (some, some)))
                x = tf.nn.relu(y + x)
        return self.classified(self.dense(tf.reduce_mean(x, (1, 2)), 19), fed["labels"])


class Inception(Model):
    def block(self, x, first):
        return tf.concat(
            (
                self.convolution(x, first),
                self.convolution(self.convolution(x, first + 1), first + 2),
                self.convolution(self.convolution(x, first + 3), first + 4),
                self.convolution(tf.nn.max_pool2d(x, 3, 1, "SAME"), first + 5),
            ),
            3,
        )

    def loss(self, fed):
        x = self.block(self.block(fed["x"], 0), 6)
        return self.classified(self.dense(tf.reduce_mean(x, (1, 2)), 12), fed["labels"])


class Lstm(Model):
    """Unrolled, with the products of the inputs of all steps in one: its fastest form on a CPU."""

    def loss(self, fed):
        x = tf.reshape(tf.nn.embedding_lookup(self.trained["embedding"], fed["words"]), (700, 200))
        for n in (0, 1):
            inputs = tf.split(tf.nn.bias_add(tf.matmul(x, self.get("wx", n)), self.get("b", n)), 35)
            h = c = tf.zeros((20, 200))
            states = []
            for one in inputs:
                i, f, g, o = tf.split(one + tf.matmul(h, self.get("wh", n)), 4, 1)
                c = tf.sigmoid(f) * c + tf.sigmoid(i) * tf.tanh(g)
                h = tf.sigmoid(o) * tf.tanh(c)
                states.append(h)
            x = tf.concat(states, 0)
        logits = tf.nn.bias_add(tf.matmul(x, self.trained["softmax_w"]), self.trained["softmax_b"])
        return self.classified(logits, fed["next"])


class Gpt(Model):
    def loss(self, fed):
        def norm(x, n):
            mean, variance = tf.nn.moments(x, -1, keepdims=True)
            return tf.nn.batch_normalization(x, mean, variance, self.get("beta", n), self.get("gamma", n), 1e-5)

        hidden = tf.linalg.band_part(tf.ones((128, 128)), -1, 0) < 0.5
        x = tf.nn.embedding_lookup(self.trained["embedding"], fed["words"]) + self.trained["positions"]
        x = tf.reshape(x, (1024, 256))
        for block in range(4):
            qkv = tf.reshape(self.dense(norm(x, 2 * block), 4 * block), (8, 128, 3, 4, 64))
            q, k, v = tf.unstack(tf.transpose(qkv, (2, 0, 3, 1, 4)))
            scores = tf.matmul(q, k, transpose_b=True) / 8
            weights = tf.nn.softmax(tf.where(hidden, -1e9, scores))
            heads = tf.reshape(tf.transpose(tf.matmul(weights, v), (0, 2, 1, 3)), (1024, 256))
            x = x + self.dense(heads, 4 * block + 1)
            wide = tf.nn.gelu(self.dense(norm(x, 2 * block + 1), 4 * block + 2), approximate=True)
            x = x + self.dense(wide, 4 * block + 3)
        return self.classified(self.dense(norm(x, 8), 16), fed["next"])


class SparseLr(Model):
    """With row-sparse gradients."""

    def loss(self, fed):
        scores = tf.reduce_sum(tf.gather(self.trained["w"], fed["features"]), 1) + self.trained["b"]
        return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(fed["labels"], scores))


MODELS = {
    "mlp": (Mlp, 0.01, 0),
    "cnn": (Cnn, 0.01, 0),
    "resnet20": (ResNet20, 0.02, 0.9),
    "inception": (Inception, 0.1, 0),
    "lstm": (Lstm, 1.0, 0),
    "gpt": (Gpt, 0.001, None),  # adam
    "sparse-lr": (SparseLr, 1.0, 0),
}


class Adam:
    """Kingma and Ba 2015, algorithm 1, by the fused kernel."""

    def __init__(self, variables, rate):
        self.variables, self.rate = variables, rate
        self.m = [tf.Variable(tf.zeros_like(v)) for v in variables]
        self.v = [tf.Variable(tf.zeros_like(v)) for v in variables]
        self.powers = [tf.Variable(0.9), tf.Variable(0.999)]

    def apply(self, gradients):
        for w, m, v, gradient in zip(self.variables, self.m, self.v, gradients):
            tf.raw_ops.ResourceApplyAdam(
                var=w.handle, m=m.handle, v=v.handle, beta1_power=self.powers[0], beta2_power=self.powers[1],
                lr=self.rate, beta1=0.9, beta2=0.999, epsilon=1e-8, grad=tf.convert_to_tensor(gradient),
            )
        self.powers[0].assign(self.powers[0] * 0.9)
        self.powers[1].assign(self.powers[1] * 0.999)


def make_step(name, weights, jit):
    kind, rate, momentum = MODELS[name]
    model = kind(weights)
    names = sorted(model.trained)
    variables = [model.trained[n] for n in names]
    velocities = [tf.Variable(tf.zeros_like(v)) for v in variables] if momentum else []
    adam = Adam(variables, rate) if momentum is None else None

    @tf.function(jit_compile=jit)
    def graph_step(fed):
        with tf.GradientTape() as tape:
            loss = model.loss(fed)
        if adam:
            adam.apply(tape.gradient(loss, variables))
            return loss
        for i, gradient in enumerate(tape.gradient(loss, variables)):
            if momentum:
                change = velocities[i].assign(momentum * velocities[i] + gradient)
                variables[i].assign_sub(rate * change)
            elif isinstance(gradient, tf.IndexedSlices):
                variables[i].scatter_sub(tf.IndexedSlices(rate * gradient.values, gradient.indices))
            else:
                variables[i].assign_sub(rate * gradient)
        return loss

    call = graph_step.get_concrete_function(model.fed)
    return lambda: float(call(model.fed))
