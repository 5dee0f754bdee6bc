# An all-reduce of Troupe beside gloo's, as PyTorch has it: processes of this machine, f32, the same sizes.
#
# python collective.py BUILD [--processes P] [--kib K,...] [--rounds R]: BUILD has troupe_bench and actor-node. With torch from
# bench/peers/install.sh. The two take turns, each in fresh processes of one thread. A line for each size has the
# fastest and the median microseconds of both, and gloo's time divided by ours.

import argparse
import json
import os
import statistics
import subprocess
import sys
import time


def gloo(rank, processes, port, kib, repeats):
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=processes)
    tensor = torch.full((kib * 256,), float(rank))
    times = []
    for _ in range(15):
        tensor.fill_(rank)
        dist.all_reduce(tensor)
        wanted = processes * (processes - 1) / 2
        assert tensor[-1].item() == wanted, tensor[-1].item()
        tensor.zero_()
        dist.barrier()
        begin = time.perf_counter()
        for _ in range(repeats):
            dist.all_reduce(tensor)
        times.append((time.perf_counter() - begin) / repeats * 1e6)
    if rank == 0:
        print(json.dumps([min(times), statistics.median(times)]), flush=True)
    dist.destroy_process_group()


def free_port():
    import socket

    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def run_gloo(processes, kib):
    repeats = max(4, min(64, (16 << 10) // kib))
    port = free_port()
    command = [sys.executable, __file__, "--rank"]
    tail = [str(processes), str(port), str(kib), str(repeats)]
    ranks = [
        subprocess.Popen(command + [str(r)] + tail, stdout=subprocess.PIPE, text=True) for r in range(processes)
    ]
    answers = [r.communicate()[0] for r in ranks]
    if any(r.returncode for r in ranks):
        sys.exit("collective.py: a process of gloo failed")
    return json.loads(answers[0])


def run_troupe(build, processes, kib):
    command = [os.path.join(build, "troupe_bench"), "collective", "--json"]
    out = subprocess.run(
        command + ["--kib", str(kib), "--processes", str(processes)], check=True, capture_output=True, text=True
    ).stdout
    values = {line["metric"]: line["value"] for line in map(json.loads, out.splitlines())}
    return [values["all_reduce_us_best"], values["all_reduce_us"]]


def main():
    if sys.argv[1:2] == ["--rank"]:
        return gloo(*map(int, sys.argv[2:]))
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--kib", default="1,16,256,4096,65536")
    parser.add_argument("--rounds", type=int, default=2)
    given = parser.parse_args()
    print(f"{'KiB':>8} {'troupe us: best':>16} {'median':>10} {'gloo us: best':>16} {'median':>10} {'by best':>8} {'by median':>10}")
    for kib in map(int, given.kib.split(",")):
        ours, theirs = [], []
        for _ in range(given.rounds):
            ours.append(run_troupe(given.build, given.processes, kib))
            theirs.append(run_gloo(given.processes, kib))
        best, median = [min(row[i] for row in ours) for i in (0, 1)]
        gloo_best, gloo_median = [min(row[i] for row in theirs) for i in (0, 1)]
        print(
            f"{kib:>8} {best:>16.1f} {median:>10.1f} {gloo_best:>16.1f} {gloo_median:>10.1f} "
            f"{gloo_best / best:>8.2f} {gloo_median / median:>10.2f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
