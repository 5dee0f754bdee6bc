# contestant.py PEER MODEL THREADS FILE: training steps of a model by another framework.
#
# PEER is torch, torch-compiled, tensorflow or tensorflow-jit. FILE holds the weights and the batch
# (bench/models.hpp), so all begin alike; what is asked on standard input and answered on standard
# output, bench/compare.hpp says.
import os
import sys
import time


def use_threads(threads):
    # Before a library is loaded, which reads these.
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[name] = str(threads)
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    os.environ["CUDA_VISIBLE_DEVICES"] = ""


def read_model(path):
    import numpy as np

    dtypes = {"f32": np.float32, "i64": np.int64}
    with open(path, "rb") as file:
        entries = []
        for line in iter(lambda: file.readline().decode().split(), []):
            entries.append((line[0], dtypes[line[1]], [int(size) for size in line[2:]]))
        return {
            name: np.frombuffer(file.read(int(np.prod(shape)) * dtype().itemsize), dtype).reshape(shape)
            for name, dtype, shape in entries
        }


def memory_mib(key):
    with open("/proc/self/status") as status:
        for line in status:
            if line.startswith(key + ":"):
                return int(line.split()[1]) / 1024
    return 0


def main():
    peer, model, threads, path = sys.argv[1:]
    use_threads(int(threads))
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is no answer
    if peer.startswith("torch"):
        import torch_models as library
    else:
        import tensorflow_models as library
    library.use_threads(int(threads))
    idle = memory_mib("VmRSS")
    step = library.make_step(model, read_model(path), peer.endswith(("-compiled", "-jit")))
    print("ready", file=answers, flush=True)
    for line in sys.stdin:
        words = line.split()
        if words[0] == "steps":
            times, loss = [], 0
            for _ in range(int(words[1])):
                begin = time.perf_counter()
                loss = step()
                times.append((time.perf_counter() - begin) * 1e3)
            print(*times, "loss", loss, file=answers, flush=True)
        elif words[0] == "memory":
            print(idle, memory_mib("VmHWM"), file=answers, flush=True)


if __name__ == "__main__":
    main()
