# The report of the trainings that killed.py kills, and their sizes: all systems take about as many steps
# a second and checkpoints of the same steps.

import os
import time

WIDTH, BATCH = 64, 32
EVERY = 100  # steps from checkpoint to checkpoint
PAUSE = 0.02  # seconds in each step
WORKERS = 2


def report(name, step):
    """Appends that a process has done a step, with the clock that all processes share, and its pid."""
    line = f"{time.monotonic():.6f} {name} {int(step)} {os.getpid()}\n"
    file = os.open(os.environ["KILLED_STEPS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    os.write(file, line.encode())
    os.close(file)


def pause():
    time.sleep(PAUSE)
