# Compares Troupe's results with those of PyTorch (1) or Keras on TensorFlow (2).
#
# usage: compare.py LIBRARY CASES.json, where LIBRARY is torch or keras. Prints each case that differs, then how many were
# compared; exit code 1 if any differs. tests/torch/torch_test.cpp writes the cases: of an op the inputs, a formula in PyTorch's
# words, the outputs, dL/dy of each and the gradients; of an optimizer its settings, the first values, the gradients and the
# values after each step. All numbers are f64.
import json
import math
import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

RELATIVE, ABSOLUTE = 1e-8, 1e-10


def differ(ours, theirs):
    """Where two lists of numbers are apart, as text, or None."""
    if len(ours) != len(theirs):
        return f"{len(ours)} numbers, {len(theirs)} of the other"
    for i, (a, b) in enumerate(zip(ours, theirs)):
        if not abs(a - b) <= ABSOLUTE + RELATIVE * abs(b):  # also for NaN
            return f"number {i} is {a!r}, of the other {b!r}"
    return None


def op_differs(case):
    import torch

    def tensor(value, **more):
        return torch.tensor(value["values"], dtype=torch.float64, **more).reshape(value["shape"])

    x = [tensor(i) for i in case["inputs"]]
    for value, wanted in zip(x, case["differentiable"]):
        value.requires_grad_(wanted)
    names = {"torch": torch, "F": torch.nn.functional, "x": x, "math": math}
    outputs = eval(case["formula"], names)
    if not isinstance(outputs, (tuple, list)):
        outputs = [outputs]
    loss = torch.zeros((), dtype=torch.float64)
    for number, (y, ours) in enumerate(zip(outputs, case["outputs"])):
        wrong = differ(ours["values"], y.detach().reshape(-1).tolist())
        if wrong:
            return f"output {number}: {wrong}"
        loss = loss + (y * tensor(case["dys"][number])).sum()
    wanted = [value for value in x if value.requires_grad]
    gradients = torch.autograd.grad(loss, wanted)
    for number, (ours, theirs) in enumerate(zip(case["gradients"], gradients)):
        wrong = differ(ours["values"], theirs.reshape(-1).tolist())
        if wrong:
            return f"gradient {number}: {wrong}"
    return None


def torch_optimizer(o, w):
    import torch

    rate = o["learning_rate"]
    return {
        "sgd": lambda: torch.optim.SGD([w], rate),
        "momentum": lambda: torch.optim.SGD([w], rate, momentum=o["momentum"]),
        "nesterov": lambda: torch.optim.SGD([w], rate, momentum=o["momentum"], nesterov=True),
        "adagrad": lambda: torch.optim.Adagrad([w], rate, eps=o["epsilon"]),
        "adadelta": lambda: torch.optim.Adadelta([w], rate, rho=o["rho"], eps=o["epsilon"]),
        "rmsprop": lambda: torch.optim.RMSprop(
            [w], rate, alpha=o["rho"], eps=o["epsilon"], momentum=o["momentum"], centered=o["centered"]),
        "adam": lambda: torch.optim.Adam([w], rate, betas=(o["beta1"], o["beta2"]), eps=o["epsilon"]),
        "adamw": lambda: torch.optim.AdamW(
            [w], rate, betas=(o["beta1"], o["beta2"]), eps=o["epsilon"], weight_decay=o["weight_decay"]),
    }[o["kind"]]()


def torch_schedule(s, optimizer):
    import torch

    schedules = torch.optim.lr_scheduler
    return {
        "constant": lambda: schedules.ConstantLR(optimizer, factor=1),
        "step": lambda: schedules.StepLR(optimizer, s["period"], gamma=s["factor"]),
        "exponential": lambda: schedules.ExponentialLR(optimizer, s["factor"] ** (1 / s["period"])),
        "polynomial": lambda: schedules.PolynomialLR(optimizer, s["period"], power=s["power"]),
        "cosine": lambda: schedules.CosineAnnealingLR(optimizer, s["period"], eta_min=s["end"] * s["rate"]),
    }[s["kind"]]()


def torch_steps(case):
    import torch

    w = torch.tensor(case["initial"], dtype=torch.float64, requires_grad=True)
    optimizer = torch_optimizer(case["optimizer"], w)
    schedule = torch_schedule(case["schedule"], optimizer)
    for gradient in case["gradients"]:
        w.grad = torch.tensor(gradient, dtype=torch.float64)
        optimizer.step()
        schedule.step()
        yield w.detach().tolist()


def keras_steps(case):
    import keras

    keras.backend.set_floatx("float64")
    o = case["optimizer"]
    rate = o["learning_rate"]
    optimizers = keras.optimizers
    optimizer = {
        # Keras counts the squares of weights twice.
        "ftrl": lambda: optimizers.Ftrl(
            rate, initial_accumulator_value=0, l1_regularization_strength=o["l1"],
            l2_regularization_strength=o["l2"] / 2, beta=o["beta"]),
        "lamb": lambda: optimizers.Lamb(rate, beta_1=o["beta1"], beta_2=o["beta2"], epsilon=o["epsilon"]),
        "rmsprop": lambda: optimizers.RMSprop(
            rate, rho=o["rho"], momentum=o["momentum"], epsilon=o["epsilon"], centered=o["centered"]),
    }[o["kind"]]()
    w = keras.Variable(case["initial"], dtype="float64")
    optimizer.build([w])
    for gradient in case["gradients"]:
        optimizer.apply([keras.ops.convert_to_tensor(gradient, dtype="float64")], [w])
        yield keras.ops.convert_to_numpy(w).tolist()


def trajectory_differs(case, steps):
    for step, theirs in enumerate(steps(case)):
        wrong = differ(case["values"][step], theirs)
        if wrong:
            return f"after step {step + 1}: {wrong}"
    return None


def main():
    library, path = sys.argv[1:]
    with open(path, encoding="utf-8") as file:
        cases = json.load(file)
    bad = 0
    for case in cases:
        try:
            if "formula" in case:
                wrong = op_differs(case)
            else:
                wrong = trajectory_differs(case, torch_steps if library == "torch" else keras_steps)
        except Exception as error:  # a formula that does not fit this version, say
            wrong = f"{type(error).__name__}: {error}"
        if wrong:
            bad += 1
            print(f"{case['name']}: {wrong}")
    print(f"{len(cases)} compared, {bad} differ")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
