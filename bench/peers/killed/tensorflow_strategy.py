# tensorflow_strategy.py JOB TASK CHIEF PS WORKER...: a process of tf.distribute.ParameterServerStrategy, with its
# addresses. JOB chief is the coordinator, as the guide of parameter server training has it: a custom loop, a
# checkpoint after each EVERY steps, which it restores when it is started again.

import json
import os
import sys

from steps import BATCH, EVERY, WIDTH, WORKERS, pause, report


def main(job, task, chief, ps, *workers):
    os.environ["TF_CONFIG"] = json.dumps({
        "cluster": {"chief": [chief], "ps": [ps], "worker": list(workers)},
        "task": {"type": job, "index": int(task)}})
    os.environ["GRPC_FAIL_FAST"] = "use_caller"  # as the guide has it
    import tensorflow as tf

    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    if job != "chief":
        server = tf.distribute.Server(resolver.cluster_spec(), job_name=job, task_index=int(task), protocol="grpc")
        report(f"{job}{task}" if job == "worker" else job, 0)
        server.join()
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    with strategy.scope():
        w = tf.Variable(tf.fill([WIDTH, WIDTH], 0.01))
        step = tf.Variable(0, dtype=tf.int64)
    checkpoint = tf.train.CheckpointManager(tf.train.Checkpoint(w=w, step=step), os.environ["KILLED_FOLDER"], max_to_keep=3)
    checkpoint.restore_or_initialize()

    @tf.function
    def train():
        def replica():
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.square(tf.matmul(tf.fill([BATCH, WIDTH], 0.5), w)))
            w.assign_sub(1e-3 * tape.gradient(loss, w))
            step.assign_add(1)
        strategy.run(replica)

    saved = int(step.numpy()) // EVERY
    while True:
        for _ in range(WORKERS):
            coordinator.schedule(train)
        coordinator.join()
        done = int(step.numpy())
        report("chief", done)
        if done // EVERY > saved:
            checkpoint.save()
            saved = done // EVERY
        pause()


main(*sys.argv[1:])
