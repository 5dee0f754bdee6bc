# The driver of Ray Train's TorchTrainer with DDP on two workers, with FailureConfig and a checkpoint each EVERY
# steps, as Ray Train's guide of fault tolerance has it. A driver with the same name and storage goes on from them.

import os
import tempfile

import ray
import ray.train
import ray.train.torch
import torch

from steps import BATCH, EVERY, WIDTH, WORKERS, pause, report


def train_loop():
    torch.set_num_threads(1)
    rank = ray.train.get_context().get_world_rank()
    model = torch.nn.Linear(WIDTH, WIDTH)
    step = 0
    checkpoint = ray.train.get_checkpoint()
    if checkpoint:
        with checkpoint.as_directory() as folder:
            saved = torch.load(os.path.join(folder, "model.pt"))
            model.load_state_dict(saved["model"])
            step = saved["step"]
    trained = ray.train.torch.prepare_model(model)
    optimizer = torch.optim.SGD(trained.parameters(), lr=1e-3)
    x = torch.full((BATCH, WIDTH), 0.5)
    while True:
        optimizer.zero_grad()
        loss = trained(x).square().mean()
        loss.backward()
        optimizer.step()
        step += 1
        report(f"worker{rank}", step)
        if step % EVERY == 0:
            with tempfile.TemporaryDirectory() as folder:
                if rank == 0:
                    torch.save({"model": model.state_dict(), "step": step}, os.path.join(folder, "model.pt"))
                ray.train.report({"loss": float(loss)},
                                 checkpoint=ray.train.Checkpoint.from_directory(folder) if rank == 0 else None)
        pause()


def main():
    report("driver", 0)
    ray.init(address=os.environ["KILLED_ADDRESS"])
    ray.train.torch.TorchTrainer(
        train_loop,
        torch_config=ray.train.torch.TorchConfig(backend="gloo"),
        scaling_config=ray.train.ScalingConfig(num_workers=WORKERS),
        run_config=ray.train.RunConfig(
            name="killed", storage_path=os.environ["KILLED_FOLDER"],
            failure_config=ray.train.FailureConfig(max_failures=5))).fit()


main()
