"""The work that every contender does: three federated workloads and their synthetic data.

Plain Python and NumPy only, so that every environment (ours and each peer's) imports the same file and
trains on the same arrays, from the same initial parameters, for the same number of steps.

The three models, as mathematics (every contender writes them in its own library):

- ``softmax``: 784 → 10, 7,850 parameters.
- ``mlp``: 784 → 200 → ReLU → 10, 159,010 parameters.
- ``lenet5``: 5×5 convolution 1→6 with padding 2, ReLU, 2×2 max pooling, 5×5 convolution 6→16 without padding,
  ReLU, 2×2 max pooling, 400 → 120 → ReLU → 84 → ReLU → 10, 61,706 parameters.

The loss is the mean cross entropy over a batch. A client starts from the server's model, takes
``local_steps`` plain gradient steps, and sends the difference; the server adds the mean of the differences.
All clients weigh the same. Batches are consecutive slices of reshuffled passes over a client's examples
(`batch_indices`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

IMAGE_SIDE = 28
PIXELS = IMAGE_SIDE * IMAGE_SIDE
CLASSES = 10
MLP_HIDDEN = 200
# Images are mixtures of smooth waves up to this many half periods per side: a small intrinsic dimension, so
# that even fifty gradient steps of a convolutional network learn something that can be checked.
WAVES_PER_SIDE = 5
CONTRAST = 14.0
GRAIN = 64


@dataclass(frozen=True)
class Workload:
    """One federated training job. ``clip_norm`` is the L2 bound on a client's update; None: no clipping."""

    name: str
    title: str
    model: str
    clients: int
    examples_per_client: int
    clients_per_round: int
    local_steps: int
    batch_size: int
    rounds: int
    learning_rate: float
    clip_norm: float | None = None
    test_examples: int = 10_000
    seed: int = 20_240_229

    @property
    def everyone(self) -> bool:
        """Whether every client takes part in every round."""
        return self.clients_per_round == self.clients

    @property
    def examples_per_update(self) -> int:
        """Examples a client processes for one update, repeats counted."""
        return self.local_steps * self.batch_size


@dataclass(frozen=True)
class Data:
    """Images uint8 [clients, examples, 784], labels int32 [clients, examples]; the test set unsplit."""

    train_images: np.ndarray
    train_labels: np.ndarray
    test_images: np.ndarray
    test_labels: np.ndarray


WORKLOADS = {
    workload.name: workload
    for workload in (
        Workload(
            name="W1",
            title="softmax, 10 of 100 clients, 10 steps of 12",
            model="softmax",
            clients=100,
            examples_per_client=600,
            clients_per_round=10,
            local_steps=10,
            batch_size=12,
            rounds=100,
            learning_rate=0.1,
        ),
        Workload(
            name="W2",
            title="MLP, 80 of 1920 clients, 32 steps of 64, clipped",
            model="mlp",
            clients=1920,
            examples_per_client=125,
            clients_per_round=80,
            local_steps=32,
            batch_size=64,
            rounds=10,
            learning_rate=0.1,
            clip_norm=1.0,
        ),
        Workload(
            name="W3",
            title="LeNet-5, all of 10 clients, 1 step of 64",
            model="lenet5",
            clients=10,
            examples_per_client=6000,
            clients_per_round=10,
            local_steps=1,
            batch_size=64,
            rounds=50,
            # Larger rates learn faster but land anywhere between 40 and 60 %: accuracies could not be
            # compared.
            learning_rate=0.03,
        ),
    )
}


def find(name: str) -> Workload:
    """The workload called ``name``."""
    if name not in WORKLOADS:
        raise ValueError(f"unknown workload {name!r}; choose one of {', '.join(WORKLOADS)}")
    return WORKLOADS[name]


def _waves() -> np.ndarray:
    """Smooth patterns [waves, 784] of mean zero and mean square one: products of cosines, no constant."""
    position = (np.arange(IMAGE_SIDE) + 0.5) * np.pi / IMAGE_SIDE
    cosines = np.cos(np.arange(WAVES_PER_SIDE)[:, None] * position)
    patterns = np.einsum("ai,bj->abij", cosines, cosines).reshape(-1, PIXELS)[1:]
    return (patterns / np.sqrt(np.mean(patterns**2, axis=1, keepdims=True))).astype(np.float32)


def _teacher(generator: np.random.Generator, waves: np.ndarray) -> np.ndarray:
    """A linear map of the pixels [784, 10]; orthogonal columns make the ten classes about equally common."""
    directions, _ = np.linalg.qr(generator.normal(size=(len(waves), CLASSES)))
    return (waves.T @ directions).astype(np.float32)


def _draw(generator: np.random.Generator, count: int, waves: np.ndarray, teacher: np.ndarray):
    amplitudes = generator.standard_normal((count, len(waves)), dtype=np.float32)
    grain = generator.integers(0, GRAIN, (count, PIXELS), dtype=np.uint8)
    smooth = 127.5 - GRAIN / 2 + CONTRAST * (amplitudes @ waves)
    images = np.clip(smooth + grain, 0, 255).astype(np.uint8)
    # The labels come from the finished uint8 pixels: what the teacher saw is exactly what a student sees.
    labels = np.argmax(scale(images) @ teacher, axis=1).astype(np.int32)
    return images, labels


def generate(workload: Workload) -> Data:
    """The data of a workload, the same on every call and in every environment."""
    waves = _waves()
    seeds = np.random.SeedSequence(workload.seed).spawn(workload.clients + 2)
    teacher = _teacher(np.random.default_rng(seeds[-1]), waves)
    test_images, test_labels = _draw(np.random.default_rng(seeds[-2]), workload.test_examples, waves, teacher)
    images = np.empty((workload.clients, workload.examples_per_client, PIXELS), np.uint8)
    labels = np.empty((workload.clients, workload.examples_per_client), np.int32)
    # One client at a time: the float intermediates stay small and do not show in anyone's peak memory.
    for client in range(workload.clients):
        generator = np.random.default_rng(seeds[client])
        images[client], labels[client] = _draw(generator, workload.examples_per_client, waves, teacher)
    return Data(images, labels, test_images, test_labels)


def scale(images: np.ndarray) -> np.ndarray:
    """Pixels 0…255 as float32 in −1…1: what every model is fed."""
    return images.astype(np.float32) * np.float32(2 / 255) - np.float32(1)


def initial_parameters(workload: Workload) -> dict[str, np.ndarray]:
    """The common starting point. Dense kernels are [in, out], convolutions [height, width, in, out]."""
    shapes = {
        "softmax": {"dense1": (PIXELS, CLASSES)},
        "mlp": {"dense1": (PIXELS, MLP_HIDDEN), "dense2": (MLP_HIDDEN, CLASSES)},
        "lenet5": {
            "convolution1": (5, 5, 1, 6),
            "convolution2": (5, 5, 6, 16),
            # The 400 inputs are ordered channel, row, column.
            "dense1": (400, 120),
            "dense2": (120, 84),
            "dense3": (84, CLASSES),
        },
    }[workload.model]
    generator = np.random.default_rng(np.random.SeedSequence(workload.seed, spawn_key=(1,)))
    parameters = {}
    for layer, shape in shapes.items():
        # He's rule keeps the signal alive through five ReLU layers; a smaller start wastes W3's fifty steps
        # on growing it.
        bound = np.sqrt(6 / np.prod(shape[:-1]))
        parameters[f"{layer}.kernel"] = generator.uniform(-bound, bound, shape).astype(np.float32)
        parameters[f"{layer}.bias"] = np.zeros(shape[-1], np.float32)
    return parameters


def cohort(workload: Workload, generator: np.random.Generator) -> np.ndarray:
    """Who takes part in a round: everyone, or a uniform sample without replacement."""
    if workload.everyone:
        return np.arange(workload.clients)
    return generator.choice(workload.clients, workload.clients_per_round, replace=False)


def batch_indices(workload: Workload, generator: np.random.Generator) -> np.ndarray:
    """Example indices [local_steps, batch_size] of one client's update, cut out of reshuffled passes."""
    passes = -(-workload.examples_per_update // workload.examples_per_client)
    order = [generator.permutation(workload.examples_per_client) for _ in range(passes)]
    indices = np.concatenate(order)[: workload.examples_per_update]
    return indices.reshape(workload.local_steps, workload.batch_size)


def accuracy(logits: np.ndarray, labels: np.ndarray) -> float:
    """The share of rows whose largest logit is at the label."""
    return float(np.mean(np.argmax(logits, axis=-1) == labels))
