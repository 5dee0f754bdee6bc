# tensorflow_server.py JOB TASK RULE PS WORKER...: a process of TensorFlow's design of 2016, with its addresses: a
# server per process, variables on the ps, MonitoredTrainingSession in each worker, worker 0 as the chief, and
# SyncReplicasOptimizer if RULE is sync. Device filters keep a worker from waiting for the other worker, as the
# documentation of distributed TensorFlow advises.

import os
import sys

import tensorflow as tf

from steps import BATCH, EVERY, WIDTH, WORKERS, pause, report

v1 = tf.compat.v1


def main(job, task, rule, ps, *workers):
    v1.disable_eager_execution()
    v1.logging.set_verbosity(v1.logging.INFO)
    task = int(task)
    filters = ["/job:ps", f"/job:worker/task:{task}"] if job == "worker" else []
    config = v1.ConfigProto(device_filters=filters, intra_op_parallelism_threads=1, inter_op_parallelism_threads=2)
    cluster = tf.train.ClusterSpec({"ps": [ps], "worker": list(workers)})
    server = v1.train.Server(cluster, job_name=job, task_index=task, config=config)
    if job == "ps":
        report("ps", 0)
        server.join()
    chief = task == 0
    with v1.device(v1.train.replica_device_setter(cluster=cluster, worker_device=f"/job:worker/task:{task}")):
        step = v1.train.get_or_create_global_step()
        w = v1.get_variable("w", [WIDTH, WIDTH])
        loss = tf.reduce_mean(tf.square(tf.matmul(tf.fill([BATCH, WIDTH], 0.5), w)))
        optimizer, hooks = v1.train.GradientDescentOptimizer(1e-3), []
        if rule == "sync":
            optimizer = v1.train.SyncReplicasOptimizer(optimizer, replicas_to_aggregate=WORKERS, total_num_replicas=WORKERS)
            hooks.append(optimizer.make_session_run_hook(chief))
        train = optimizer.minimize(loss, global_step=step)
    with v1.train.MonitoredTrainingSession(
            master=server.target, is_chief=chief, checkpoint_dir=os.environ["KILLED_FOLDER"], hooks=hooks, config=config,
            save_checkpoint_steps=EVERY, save_summaries_steps=None, save_summaries_secs=None, log_step_count_steps=None) as session:
        while True:
            _, done = session.run([train, step])
            report(f"worker{task}", done)
            pause()


main(*sys.argv[1:])
