"""fedjax 0.0.17: federated averaging, the `jit` backend of `for_each_client`, Haiku models, data in memory.

W1 and W3 run `fedjax.algorithms.fed_avg` as it is. It has no clipping, so W2 runs the same client training
through the same `for_each_client` and puts fedjax's own `tree_clip_by_global_norm` between client and mean.
"""

from __future__ import annotations

import warnings

import measure
import numpy as np

import workloads

# fedjax's last release uses `jax.tree_map`, which the JAX it runs on already announces to remove.
warnings.filterwarnings("ignore", category=DeprecationWarning)

import fedjax  # noqa: E402
import haiku  # noqa: E402
import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
from fedjax.algorithms import fed_avg  # noqa: E402
from fedjax.core import tree_util  # noqa: E402

VARIANTS = {
    "all threads": {},
    "1 thread": {"XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false"},
}


def _forward(batch, model: str):
    layers = {
        "softmax": lambda: [haiku.Linear(workloads.CLASSES, name="dense1")],
        "mlp": lambda: [
            haiku.Linear(workloads.MLP_HIDDEN, name="dense1"),
            jax.nn.relu,
            haiku.Linear(workloads.CLASSES, name="dense2"),
        ],
        "lenet5": lambda: [
            haiku.Reshape((workloads.IMAGE_SIDE, workloads.IMAGE_SIDE, 1)),
            haiku.Conv2D(6, 5, padding=(2, 2), name="convolution1"),
            jax.nn.relu,
            haiku.MaxPool(2, 2, "VALID"),
            haiku.Conv2D(16, 5, padding="VALID", name="convolution2"),
            jax.nn.relu,
            haiku.MaxPool(2, 2, "VALID"),
            haiku.Flatten(),
            haiku.Linear(120, name="dense1"),
            jax.nn.relu,
            haiku.Linear(84, name="dense2"),
            jax.nn.relu,
            haiku.Linear(workloads.CLASSES, name="dense3"),
        ],
    }[model]()
    return haiku.Sequential(layers)(batch["x"])


def make_model(workload: workloads.Workload) -> fedjax.Model:
    return fedjax.create_model_from_haiku(
        transformed_forward_pass=haiku.transform(lambda batch: _forward(batch, workload.model)),
        sample_batch={"x": np.zeros((1, workloads.PIXELS), np.float32), "y": np.zeros(1, np.int32)},
        train_loss=lambda batch, outputs: fedjax.metrics.unreduced_cross_entropy_loss(batch["y"], outputs),
    )


def initial_parameters(workload: workloads.Workload, model: fedjax.Model):
    """The common starting point in Haiku's tree."""
    common = workloads.initial_parameters(workload)
    if workload.model == "lenet5":
        # Haiku flattens row, column, channel; the common kernel expects channel, row, column.
        kernel = common["dense1.kernel"].reshape(16, 5, 5, 120)
        common["dense1.kernel"] = kernel.transpose(1, 2, 0, 3).reshape(400, 120)
    template = model.init(jax.random.PRNGKey(0))
    return {
        layer: {"w": jnp.asarray(common[f"{layer}.kernel"]), "b": jnp.asarray(common[f"{layer}.bias"])}
        for layer in template
    }


def clipped_averaging(gradient, client_optimizer, server_optimizer, batching, clip_norm: float):
    """fedjax's federated averaging with each client's update clipped, all clients weighing the same."""
    train_each_client = fed_avg.create_train_for_each_client(gradient, client_optimizer)

    def initialise(parameters):
        return fed_avg.ServerState(parameters, server_optimizer.init(parameters))

    def apply(state, clients):
        batched = [(client, data.shuffle_repeat_batch(batching), key) for client, data, key in clients]
        updates = train_each_client(state.params, batched)
        clipped = ((tree_util.tree_clip_by_global_norm(update, clip_norm), 1.0) for _, update in updates)
        optimizer_state, parameters = server_optimizer.apply(
            tree_util.tree_mean(clipped), state.opt_state, state.params
        )
        return fed_avg.ServerState(parameters, optimizer_state), {}

    return fedjax.FederatedAlgorithm(initialise, apply)


class Fedjax:
    def __init__(self, workload: workloads.Workload, data: workloads.Data):
        self.workload = workload
        images = workloads.scale(data.train_images)
        self.population = fedjax.InMemoryFederatedData(
            {client: {"x": images[client], "y": data.train_labels[client]} for client in range(workload.clients)}
        )
        self.model = make_model(workload)
        self.parameters = initial_parameters(workload, self.model)
        self.notes = f"jax {jax.__version__}, jit backend"

    def _algorithm(self) -> fedjax.FederatedAlgorithm:
        def loss(parameters, batch, key):
            return jnp.mean(self.model.train_loss(batch, self.model.apply_for_train(parameters, batch, key)))

        pieces = (
            jax.grad(loss),
            fedjax.optimizers.sgd(self.workload.learning_rate),
            fedjax.optimizers.sgd(1.0),
            fedjax.ShuffleRepeatBatchHParams(
                batch_size=self.workload.batch_size, num_epochs=None, num_steps=self.workload.local_steps
            ),
        )
        if self.workload.clip_norm is None:
            return fed_avg.federated_averaging(*pieces)
        return clipped_averaging(*pieces, self.workload.clip_norm)

    def train(self, rounds: int, finished: measure.Finished) -> None:
        with fedjax.for_each_client_backend("jit"):
            algorithm = self._algorithm()
        sampler = fedjax.client_samplers.UniformGetClientSampler(
            self.population, self.workload.clients_per_round, seed=self.workload.seed
        )
        state = algorithm.init(self.parameters)
        for round_number in range(rounds):
            state, _ = algorithm.apply(state, sampler.sample())
            if round_number == 0:
                jax.block_until_ready(state.params)
            if finished(round_number + 1):
                break
        self.parameters = jax.block_until_ready(state.params)

    def logits(self, images):
        return np.asarray(self.model.apply_for_eval(self.parameters, {"x": images}))


if __name__ == "__main__":
    measure.main("fedjax", Fedjax, __doc__, variants=VARIANTS)
