# ray_actors.py RULE: the driver of Ray's example of a parameter server: an actor holds the parameters, two actors
# compute gradients; RULE is sync or async. All actors and their calls are tried again without end. The
# parameter server is detached, so that it outlives the driver, and writes a checkpoint that its constructor reads.

import os
import sys

import numpy as np
import ray

from steps import BATCH, EVERY, WIDTH, WORKERS, pause, report

SAVED = os.path.join(os.environ["KILLED_FOLDER"], "parameters.npz")
AGAIN = {"max_restarts": -1, "max_task_retries": -1, "num_cpus": 1}


@ray.remote(**AGAIN)
class ParameterServer:
    def __init__(self):
        self.w, self.step = np.full((WIDTH, WIDTH), 0.01), 0
        if os.path.exists(SAVED):
            saved = np.load(SAVED)
            self.w, self.step = saved["w"], int(saved["step"])
        report("ps", self.step)

    def apply_gradients(self, *gradients):
        self.w = self.w - 1e-3 * np.mean(gradients, axis=0)
        self.step += 1
        report("ps", self.step)
        if self.step % EVERY == 0:
            np.savez(SAVED + ".new.npz", w=self.w, step=self.step)
            os.replace(SAVED + ".new.npz", SAVED)
        return self.w, self.step

    def get(self):
        return self.w, self.step


@ray.remote(**AGAIN)
class DataWorker:
    def __init__(self, number):
        self.name = f"worker{number}"

    def compute_gradients(self, w, step):
        x = np.full((BATCH, WIDTH), 0.5)
        gradient = x.T @ (x @ w) * (2 / BATCH / WIDTH)
        pause()
        report(self.name, step + 1)
        return gradient


def main(rule):
    ray.init(address=os.environ["KILLED_ADDRESS"], namespace="killed")
    ps = ParameterServer.options(name="ps", lifetime="detached", get_if_exists=True).remote()
    workers = [DataWorker.remote(i) for i in range(WORKERS)]
    w, step = ray.get(ps.get.remote())
    if rule == "sync":
        while True:
            report("driver", step)
            w, step = ray.get(ps.apply_gradients.remote(*[worker.compute_gradients.remote(w, step) for worker in workers]))
    computing = {worker.compute_gradients.remote(w, step): worker for worker in workers}
    while True:
        (gradient,), _ = ray.wait(list(computing))
        worker = computing.pop(gradient)
        w, step = ray.get(ps.apply_gradients.remote(gradient))
        report("driver", step)
        computing[worker.compute_gradients.remote(w, step)] = worker


main(*sys.argv[1:])
