"""The bar for W1: the whole training run as one hand-written JAX program on one device.

Loops over rounds, clients and steps are inside one compiled function; the softmax gradient is written by
hand; nothing is general. Clients run one after another, so who spreads them over cores may pass it.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import measure
import numpy as np
from jax import lax

import workloads

VARIANTS = {
    "all threads": {},
    "1 thread": {"XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false"},
}


def make_program(workload: workloads.Workload):
    """A compiled (server, images, labels, key, first round, last round) -> server.

    The rounds are dynamic, so it compiles once; the data is an argument, because XLA would fold a constant
    into the program.
    """

    def step(server, batch):
        kernel, bias = server
        images, labels = batch
        probabilities = jax.nn.softmax(images @ kernel + bias)
        residual = (probabilities - jax.nn.one_hot(labels, workloads.CLASSES)) / workload.batch_size
        rate = workload.learning_rate
        return (kernel - rate * (images.T @ residual), bias - rate * residual.sum(0)), None

    def shuffle(key):
        # W1 needs a fifth of a pass, so the head of one permutation is everybody else's reshuffled pass.
        order = jax.random.permutation(key, workload.examples_per_client)[: workload.examples_per_update]
        return order.reshape(workload.local_steps, workload.batch_size)

    def one_round(number, server, images, labels, key):
        cohort_key, data_key = jax.random.split(jax.random.fold_in(key, number))
        clients = jax.random.permutation(cohort_key, workload.clients)[: workload.clients_per_round]
        batches = jax.vmap(shuffle)(jax.random.split(data_key, workload.clients_per_round))

        def add_client(total, chosen):
            client, indices = chosen
            trained, _ = lax.scan(step, server, (images[client, indices], labels[client, indices]))
            return jax.tree.map(lambda sum_, new, old: sum_ + (new - old), total, trained, server), None

        total, _ = lax.scan(add_client, jax.tree.map(jnp.zeros_like, server), (clients, batches))
        return jax.tree.map(lambda value, change: value + change / workload.clients_per_round, server, total)

    @jax.jit
    def program(server, images, labels, key, first, last):
        return lax.fori_loop(first, last, lambda number, server: one_round(number, server, images, labels, key), server)

    return program


class WholeProgramJax:
    notes = f"jax {jax.__version__}; compiled for this workload only"

    def __init__(self, workload: workloads.Workload, data: workloads.Data):
        self.workload = workload
        self.data = jnp.asarray(workloads.scale(data.train_images)), jnp.asarray(data.train_labels)
        self.program = make_program(workload)
        initial = workloads.initial_parameters(workload)
        self.server = (jnp.asarray(initial["dense1.kernel"]), jnp.asarray(initial["dense1.bias"]))

    def train(self, rounds: int, finished: measure.Finished) -> None:
        key = jax.random.key(self.workload.seed)
        self.server = jax.block_until_ready(self.program(self.server, *self.data, key, 0, 1))
        finished(1)
        self.server = jax.block_until_ready(self.program(self.server, *self.data, key, 1, rounds))
        finished(rounds)

    def logits(self, images):
        kernel, bias = self.server
        return np.asarray(images @ kernel + bias)


if __name__ == "__main__":
    measure.main("whole_program_jax", WholeProgramJax, __doc__, supported=("W1",), variants=VARIANTS)
