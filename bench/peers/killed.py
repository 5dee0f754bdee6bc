# Distributed TensorFlow, torchrun, Ray and Troupe, killed and frozen in the same ways: how soon the user sees
# something and its words, the steps that are lost, and the seconds until all replicas train again.
#
# python killed.py BUILD [--only A,B] [--json] [--logs FOLDER]: BUILD has actor-node and troupe_bench. --only takes the
# begins of names, such as torch or tensorflow/ps. --logs keeps the output of all processes. With torch, tensorflow-cpu
# and ray[train] from bench/peers/install.sh; without one of them a line says so, and its scenarios are left out.
#
# Each system trains a small layer on two replicas, some 50 steps a second, with a checkpoint each 100 steps. The fault comes
# at step 250. A supervisor starts a process that ended again at once, unless the system's own launcher does it. All
# processes are on this machine. `seen` is the first line after the fault that is unlike all before, of a process that
# was there before the fault.

import argparse
import ctypes
import importlib.util
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "killed"))
from steps import EVERY, WORKERS  # noqa: E402

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "killed")
FIRE_AT = 250  # steps
START_LIMIT = 600  # seconds until FIRE_AT
LIMIT = 60  # seconds after a fault or a freeze for which a result is awaited, and twice the time of a fresh start
FREEZE = 20  # seconds
SETTLE = 4  # seconds of steps of all replicas after which a scenario ends
SOON, STOOD = 5, 1  # a stop of a replica begins within so many seconds of the fault, and takes more than so many
RESTARTS = 8  # of one process
REPLICAS = [f"worker{i}" for i in range(WORKERS)]
NOISE = re.compile("deprecated|Instructions for updating|DeprecationWarning")  # tells nothing of a fault


def own_descendants():
    """The pids of all processes below this one, which is their subreaper."""
    children = {}
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{entry}/stat") as file:
                parent = int(file.read().rsplit(")", 1)[1].split()[1])
        except OSError:
            continue
        children.setdefault(parent, []).append(int(entry))
    found, todo = [], [os.getpid()]
    while todo:
        below = children.get(todo.pop(), [])
        found += below
        todo += below
    return found


def free_ports(count):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


class Program:
    """A process that a user starts, all its lives, and the lines that it writes."""

    def __init__(self, name, argv, run, again=True):
        self.name, self.argv, self.run, self.again = name, argv, run, again
        self.life = 0
        self.start()

    def start(self):
        self.life += 1
        self.process = subprocess.Popen(
            self.argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=self.run.env,
            cwd=self.run.folder, start_new_session=True, text=True, errors="replace")
        threading.Thread(target=self.read, args=(self.process, self.life), daemon=True).start()

    def read(self, process, life):
        for line in process.stdout:
            self.run.said(self.name, life, re.sub("\x1b\\[[0-9;]*m", "", line.rstrip()))

    def look(self, ending):
        """Starts the process again if it has ended."""
        code = self.process.poll()
        if code is None or ending or not self.again or self.life > RESTARTS:
            return
        if code != -signal.SIGKILL:  # the fault itself is no news
            self.run.said(self.name, self.life, f"({self.name} ended, " + (f"exit code {code}" if code >= 0 else f"signal {-code}") + ")")
        if self.life > 1:
            time.sleep(1)
        self.start()


class Run:
    """The processes of one scenario, their lines and steps."""

    def __init__(self, logs):
        self.folder = tempfile.mkdtemp(prefix="killed-")
        self.log = open(logs, "w") if logs else None
        self.steps_file = os.path.join(self.folder, "steps")
        open(self.steps_file, "w").close()
        self.env = {**os.environ, "KILLED_STEPS": self.steps_file, "KILLED_FOLDER": os.path.join(self.folder, "checkpoints"),
                    "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": HERE, "PYTHONUNBUFFERED": "1"}
        os.mkdir(self.env["KILLED_FOLDER"])
        self.lines, self.programs, self.ending = [], [], False
        self.lock = threading.Lock()
        self.supervisor = threading.Thread(target=self.supervise)

    def add(self, name, *argv, again=True):
        self.programs.append(Program(name, [str(word) for word in argv], self, again))

    def said(self, program, life, line):
        with self.lock:
            self.lines.append((time.monotonic(), program, life, line))
            if self.log:
                print(f"{time.monotonic():.3f} {program}/{life} {line}", file=self.log, flush=True)

    def supervise(self):
        while not self.ending:
            for program in self.programs:
                program.look(self.ending)
            time.sleep(0.05)

    def steps(self):
        """(time, name, step, pid) of each step that has been reported."""
        with open(self.steps_file) as file:
            rows = [line.split() for line in file if line.endswith("\n")]
        return [(float(t), name, int(step), int(pid)) for t, name, step, pid in rows]

    def pid(self, name):
        """Of a program, or of a process that reports steps."""
        for program in self.programs:
            if program.name == name:
                return program.process.pid
        node = os.path.join(self.folder, "run", name + ".pid")
        if os.path.exists(node):
            with open(node) as file:
                return int(file.read())
        return [pid for _, who, _, pid in self.steps() if who == name][-1]

    def end(self):
        self.ending = True
        self.supervisor.join()
        while pids := own_descendants():
            for pid in pids:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            try:
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
            except ChildProcessError:
                pass
            time.sleep(0.05)
        shutil.rmtree(self.folder, ignore_errors=True)


# How to start each system, with a rule.


def start_tensorflow(run, scenario):
    addresses = [f"127.0.0.1:{port}" for port in free_ports(3)]
    for job, task in (("ps", 0), ("worker", 0), ("worker", 1)):
        run.add(f"{job}{task if job == 'worker' else ''}", sys.executable, os.path.join(HERE, "tensorflow_server.py"), job, task,
                scenario.rule, *addresses, again=not scenario.left)


def start_strategy(run, scenario):
    addresses = [f"127.0.0.1:{port}" for port in free_ports(4)]
    for job, task in (("ps", 0), ("worker", 0), ("worker", 1), ("chief", 0)):
        run.add(f"{job}{task if job == 'worker' else ''}", sys.executable, os.path.join(HERE, "tensorflow_strategy.py"), job, task, *addresses)


def start_torch(run, scenario):
    run.add("torchrun", sys.executable, "-m", "torch.distributed.run", "--nnodes", 1, "--nproc-per-node", WORKERS, "--max-restarts", 5,
            "--rdzv-backend", "c10d", "--rdzv-endpoint", f"127.0.0.1:{free_ports(1)[0]}", os.path.join(HERE, "torch_elastic.py"))


def start_ray(run, script, *words):
    port, client_port = free_ports(2)
    run.env["KILLED_ADDRESS"] = f"127.0.0.1:{port}"
    run.env["RAY_USAGE_STATS_ENABLED"] = "0"
    run.add("ray", os.path.join(os.path.dirname(sys.executable), "ray"), "start", "--head", "--block", "--num-cpus", 6, "--port", port,
            "--ray-client-server-port", client_port, "--include-dashboard", "false", "--object-store-memory", 200 << 20, "--temp-dir",
            os.path.join(run.folder, "ray"))
    wait(lambda: any("Ray runtime started" in line for _, _, _, line in run.lines), START_LIMIT, "Ray does not start")
    run.add("driver", sys.executable, os.path.join(HERE, script), *words)


def start_ray_actors(run, scenario):
    start_ray(run, "ray_actors.py", scenario.rule)


def start_ray_train(run, scenario):
    start_ray(run, "ray_train.py")


def start_troupe(run, scenario):
    run.add("up", os.path.join(BUILD, "actor-node"), "up", "--ps", 2, "--workers", WORKERS, "--threads", 1, "--run-dir",
            os.path.join(run.folder, "run"), os.path.join(BUILD, "troupe_bench"), "killed", "--to", run.steps_file, "--checkpoints",
            os.path.join(run.folder, "checkpoints", "run"), "--rule", scenario.rule, "--every", EVERY)


class Scenario:
    """`target` is killed, or frozen for FREEZE seconds; replicas in `anew` must be seen in a new process. A process that
    is `left` is not started again."""

    def __init__(self, name, start, target, anew=(), replicas=REPLICAS):
        self.name, self.start, self.target, self.anew, self.replicas = name, start, target, set(anew), replicas
        self.rule, self.freeze, self.left = name.split("/")[2], "/freeze-" in name, "-left/" in name


def scenarios():
    """The faults of each system: their names and targets, and the replicas that get new processes."""
    for name, target, anew in (("worker/sync", "worker1", ["worker1"]), ("worker-left/sync", "worker1", ["worker1"]),
                               ("worker/async", "worker1", ["worker1"]), ("ps/sync", "ps", []), ("chief/async", "worker0", ["worker0"]),
                               ("freeze-worker/sync", "worker1", []), ("freeze-ps/sync", "ps", [])):
        yield Scenario(f"tensorflow/{name}", start_tensorflow, target, anew)
    for name, target, anew in (("worker/async", "worker1", []), ("ps/async", "ps", ["chief"]), ("chief/async", "chief", ["chief"]),
                               ("freeze-worker/async", "worker1", [])):
        yield Scenario(f"tf.distribute/{name}", start_strategy, target, anew, ["chief"])
    for name, target, anew in (("worker/sync", "worker1", REPLICAS), ("launcher/sync", "torchrun", REPLICAS),
                               ("freeze-worker/sync", "worker1", [])):
        yield Scenario(f"torch/{name}", start_torch, target, anew)
    for name, target, anew in (("worker/sync", "worker1", ["worker1"]), ("worker/async", "worker1", ["worker1"]), ("ps/sync", "ps", []),
                               ("driver/sync", "driver", REPLICAS), ("freeze-worker/sync", "worker1", []), ("freeze-ps/sync", "ps", [])):
        yield Scenario(f"ray/{name}", start_ray_actors, target, anew)
    for name, target, anew in (("worker/sync", "worker1", REPLICAS), ("driver/sync", "driver", REPLICAS), ("freeze-worker/sync", "worker1", [])):
        yield Scenario(f"ray-train/{name}", start_ray_train, target, anew)
    for name, target, anew in (("worker/sync", "worker-1", []), ("worker/async", "worker-1", []), ("ps/sync", "ps-0", []),
                               ("ps/async", "ps-0", []), ("program/sync", "worker0", REPLICAS), ("launcher/sync", "up", REPLICAS),
                               ("freeze-worker/sync", "worker-1", []), ("freeze-ps/sync", "ps-0", []), ("freeze-program/sync", "worker0", [])):
        yield Scenario(f"troupe/{name}", start_troupe, target, anew)


NEEDS = {"tensorflow": "tensorflow", "tf.distribute": "tensorflow", "torch": "torch", "ray": "ray", "ray-train": "pyarrow", "troupe": None}


def absent(system):
    """The reason why a system cannot be tried, or nothing."""
    if NEEDS[system] and not importlib.util.find_spec(NEEDS[system]):
        return f"no {NEEDS[system]}; bench/peers/install.sh installs it"
    programs = ("actor-node", "troupe_bench") if system == "troupe" else ()
    return next((f"no {name} in {BUILD}" for name in programs if not os.path.exists(os.path.join(BUILD, name))), None)


def wait(condition, limit, failure):
    end = time.monotonic() + limit
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(f"{failure} in {limit} s")
        time.sleep(0.1)


def all_train(run, scenario, since, old):
    """Whether all replicas have done steps of late, not in `old` processes where they must be new."""
    now = time.monotonic()
    late = [(name, pid) for t, name, _, pid in run.steps() if t > max(since, now - 1.5)]
    return all(any(who == name and (old is None or name not in scenario.anew or pid not in old) for who, pid in late)
               for name in scenario.replicas)


def shape(line):
    return re.sub(r"[0-9a-f]*\d[0-9a-f]*", "#", line)


def news(lines, begin):
    """The lines after `begin` that are unlike all before, of processes that were there."""
    known, lives, found = set(), {}, []
    for t, program, life, line in lines:
        if t < begin:
            known.add(shape(line))
            lives[program] = life
        elif line.strip() and shape(line) not in known and life == lives.get(program, 1) and not NOISE.search(line):
            found.append((t, program, line))
    return found


def stop_after(times, begin, end):
    """(length, end) of the longest time without a step that begins soon after `begin`; its end is None if no step comes."""
    times = [begin, *[t for t in times if begin < t < end]]
    stops = [(b - a, b) for a, b in zip(times, times[1:]) if a < begin + SOON]
    if len(times) == 1 or times[-1] < begin + SOON:
        stops.append((end - times[-1], None))
    return max(stops, key=lambda stop: stop[0])


def result(run, scenario, begin, end):
    steps = [row for row in run.steps() if row[0] < end]
    old = {pid for t, _, _, pid in steps if t < begin}
    lost, others, beside, backs = 0, 0, 0, []
    for name in scenario.replicas:
        mine = [row for row in steps if row[1] == name]
        new = next((t for t, _, _, pid in mine if pid not in old), None)
        furthest = 0
        for t, _, step, pid in mine:
            if new and t > new and pid in old:
                beside += 1
                continue
            if t > begin and step < furthest:
                lost, furthest = max(lost, furthest - step + 1), step
            furthest = max(furthest, step)
        length, back = stop_after([row[0] for row in mine], begin, end)
        if name != scenario.target.replace("-", ""):
            others = max(others, length)
        back = back or (end if length < STOOD else None)
        if name in scenario.anew:
            back = new and max(new, back if length > STOOD else new)
        elif back and length < STOOD:
            back = begin
        backs.append(back)
    seen = news(run.lines, begin)
    return {
        "seen_s": round(seen[0][0] - begin, 2) if seen else None,
        "seen_by": seen[0][1] if seen else None,
        "words": seen[0][2][:300] if seen else None,
        "more": [f"{t - begin:.1f} {program}: {line[:200]}" for t, program, line in seen[1:12]],
        "lost_steps": lost,
        "others_stop_s": round(others, 2),
        "all_train_s": None if None in backs else round(max(backs) - begin, 2),
        "steps_of_old_beside_new": beside,
        "watched_s": round(end - begin, 1),
    }


def play(scenario, logs):
    run = Run(logs and os.path.join(logs, scenario.name.replace("/", "-") + ".log"))
    run.supervisor.start()
    started = time.monotonic()
    try:
        scenario.start(run, scenario)
        wait(lambda: all_train(run, scenario, 0, None), START_LIMIT, "not all train")
        fresh = time.monotonic() - started
        wait(lambda: max(step for _, _, step, _ in run.steps()) >= FIRE_AT, START_LIMIT, f"no step {FIRE_AT}")
        old = {pid for _, _, _, pid in run.steps()}
        pid, begin = run.pid(scenario.target), time.monotonic()
        os.kill(pid, signal.SIGSTOP if scenario.freeze else signal.SIGKILL)
        since = begin
        if scenario.freeze:
            time.sleep(FREEZE)
            try:
                os.kill(pid, signal.SIGCONT)
            except ProcessLookupError:
                pass  # its supervisor has killed it
            since = time.monotonic()
        time.sleep(SETTLE)
        good = 0
        while good < SETTLE and time.monotonic() < since + LIMIT + (0 if scenario.left else 2 * fresh):
            time.sleep(0.5)
            good = good + 0.5 if all_train(run, scenario, since, old) else 0
        return {**result(run, scenario, begin, time.monotonic()), "fresh_start_s": round(fresh, 1)}
    except TimeoutError as error:
        return {"error": str(error), "last": [line for _, _, _, line in run.lines[-5:]]}
    finally:
        run.end()


def text(r):
    if "error" in r:
        return f"failed: {r['error']}"
    seen = f"seen after {r['seen_s']} s by {r['seen_by']}: {r['words'][:110]}" if r["seen_s"] is not None else "nothing seen"
    again = f"all train after {r['all_train_s']} s" if r["all_train_s"] is not None else f"not all train after {r['watched_s']} s"
    beside = f"; {r['steps_of_old_beside_new']} steps of old processes beside new ones" if r["steps_of_old_beside_new"] else ""
    return (f"lost {r['lost_steps']} steps; others stop {r['others_stop_s']} s; {again}{beside} (a fresh start took "
            f"{r['fresh_start_s']} s); {seen}")


def main():
    global BUILD
    parser = argparse.ArgumentParser(description="Trainings of several systems, killed in the same ways.")
    parser.add_argument("build")
    parser.add_argument("--only", default="", help="begins of names of scenarios, with commas between them")
    parser.add_argument("--json", action="store_true", help="a line of JSON for each scenario")
    parser.add_argument("--logs", help="folder for the output of all processes")
    given = parser.parse_args()
    BUILD = os.path.abspath(given.build)
    if given.logs:
        os.makedirs(given.logs, exist_ok=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))  # by way of Run.end()
    ctypes.CDLL(None).prctl(36, 1)  # PR_SET_CHILD_SUBREAPER: orphans stay below this process
    chosen = [s for s in scenarios() if not given.only or any(s.name.startswith(begin) for begin in given.only.split(","))]
    if not chosen:
        sys.exit("--only knows " + ", ".join(s.name for s in scenarios()))
    skipped = set()
    for scenario in chosen:
        system = scenario.name.split("/")[0]
        if reason := absent(system):
            if system not in skipped:
                print(f"skipped: {system}, {reason}", file=sys.stderr)
            skipped.add(system)
            continue
        r = play(scenario, given.logs)
        if given.json:
            print(json.dumps({"bench": "killed", "metric": scenario.name, "value": r.get("all_train_s"), "unit": "s", "config": r}), flush=True)
        else:
            print(f"{scenario.name:30} {text(r)}", flush=True)


if __name__ == "__main__":
    main()
