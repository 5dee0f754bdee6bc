# A worker of `torchrun --max-restarts`, as the tutorial of torchrun on fault tolerance has it: DDP with gloo, a
# snapshot by rank 0 that all load when they are started again.

import os

import torch
from torch.nn.parallel import DistributedDataParallel

from steps import BATCH, EVERY, WIDTH, pause, report

SNAPSHOT = os.path.join(os.environ["KILLED_FOLDER"], "snapshot.pt")


def main():
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo")
    rank = torch.distributed.get_rank()
    model = torch.nn.Linear(WIDTH, WIDTH)
    step = 0
    if os.path.exists(SNAPSHOT):
        saved = torch.load(SNAPSHOT)
        model.load_state_dict(saved["model"])
        step = saved["step"]
    trained = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(trained.parameters(), lr=1e-3)
    x = torch.full((BATCH, WIDTH), 0.5)
    while True:
        optimizer.zero_grad()
        trained(x).square().mean().backward()
        optimizer.step()
        step += 1
        report(f"worker{rank}", step)
        if step % EVERY == 0 and rank == 0:
            torch.save({"model": model.state_dict(), "step": step}, SNAPSHOT + ".new")
            os.replace(SNAPSHOT + ".new", SNAPSHOT)
        pause()


main()
