"""A stand-in for examples that nobody may look at: made up, and of the same sizes."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hush.core.check import at_least, flag, integer, positive
from hush.core.check import seed as check_seed
from hush.core.memory import check_room, on_host
from hush.data.datasets import Scale, pixel_scale
from hush.models.products import FLOAT32
from hush.models.wrap import wrap
from hush.tasks.images import partition
from hush.tasks.measures import classification
from hush.tasks.problem import Recipe, Supervised, supervised

Array = np.ndarray[Any, Any]
MODES = 4  # of each class: with one alone, a linear model would be as good as any
DIMENSIONS = 24  # of the subspace in which examples differ but for noise; images vary in few directions, too
GREY, CONTRAST = 0.25, 0.3  # mean and deviation of features before they are cut off at 0 and 1: dark, as images are
AT_ONCE = 8192  # examples are made at a time
TO_SCALE_BY = 1000  # examples, which nobody holds


def synthetic(
    clients: int = 100,
    *,
    examples_per_client: int = 600,
    features: int | Sequence[int] = (28, 28),
    classes: int = 10,
    separation: float = 1.0,
    noise: float = 0.1,
    classes_per_client: int | None = None,
    dominant_classes: int | None = None,
    dirichlet: float | None = None,
    power_law: float | None = None,
    model: Any = "softmax",
    model_options: dict[str, Any] | None = None,
    precision: str = FLOAT32,
    standardise: bool = False,
    test_examples: int = 10_000,
    partition_seed: int = 0,
) -> Supervised:
    """Made-up examples, a mixture of Gaussians for each class.

    They are dealt to `clients` clients: a stand-in for data unseen.
    Each class has four modes in a subspace of 24 dimensions, `separation` standard deviations from the middle in each
    of them. That is mapped to `features` (a number, or a shape such as [28, 28]) between 0 and 1, each with white
    `noise` of its own. With the defaults, softmax regression gets 87 to 89 % right and a perceptron of 200 hidden units
    94 to 96 % (84 to 86 and 92 to 94 of 12,000 examples); a convolution gains nothing, for neighbours are not alike.
    The partition is one of those that images have; `examples_per_client` is the mean. Everything, examples too, is
    drawn from `partition_seed`. `standardise` takes off a mean and divides by a deviation, both of a thousand more
    examples that no client gets.
    `precision` is that of the model's products, "float32" or, on a GPU, "bfloat16": docs/speed.md.
    """
    settings = {name: value for name, value in locals().items() if value is not None}
    shape = _shape(features)
    for name, value in {"clients": clients, "examples_per_client": examples_per_client}.items():
        integer(name, value)
    integer("classes", classes, 2)
    integer("test_examples", test_examples)
    flag("standardise", standardise)
    total = clients * examples_per_client
    _check_memory(total + test_examples, math.prod(shape), classes)
    mixture = _mixture(math.prod(shape), classes, separation, noise, partition_seed)
    train, test = ((x.reshape(-1, *shape), y) for x, y in map(mixture.draw, (total, test_examples)))
    kinds = (classes_per_client, dominant_classes, dirichlet, power_law)
    parts = partition(train[1], clients, partition_seed, *kinds, examples_per_client=None, overlap=False)
    mean, deviation = np.asarray(_scale(mixture) if standardise else ((0.0,), (1.0,)))
    return supervised(
        train,
        parts,
        wrap(model, shape, classes, model_options, precision),
        classification,
        test=test,
        scale=1 / (255 * deviation),
        shift=-mean / deviation,
        recipe=Recipe(name="synthetic", **settings) if isinstance(model, str) else None,
    )


@dataclass(frozen=True)
class _Mixture:
    """x = grey + contrast · (centre + N(0, I)) A + noise · N(0, I), cut off at 0 and 1 and kept as bytes."""

    centres: Array  # [classes, modes, dimensions]
    spread: Array  # A [dimensions, features]: features have a variance of one
    noise: float
    draws: np.random.Generator

    def draw(self, count: int) -> tuple[Array, Array]:
        """So many examples, as bytes, and their classes, of which all have equally many."""
        classes, modes, _ = self.centres.shape
        features = self.spread.shape[1]
        labels = self.draws.permutation(np.arange(count) % classes)
        centres = self.centres[labels, self.draws.integers(0, modes, count)]
        found = np.empty((count, features), np.uint8)
        for begin in range(0, count, AT_ONCE):
            inner = centres[begin : begin + AT_ONCE]
            inner = inner + self.draws.standard_normal(inner.shape, np.float32)
            white = self.draws.standard_normal((len(inner), features), np.float32)
            values = GREY + CONTRAST * (inner @ self.spread) + self.noise * white
            found[begin : begin + AT_ONCE] = np.rint(255 * np.clip(values, 0, 1))
        return found, labels.astype(np.int32)


def _scale(mixture: _Mixture) -> Scale:
    """Mean and deviation of all features of other examples: those of the clients' would tell of them."""
    return pixel_scale(mixture.draw(TO_SCALE_BY)[0][..., None])


def _check_memory(count: int, features: int, classes: int) -> None:
    parts = {
        f"{count:,} examples of {features:,} features": count * features,
        f"the middles of {classes:,} classes": 4 * classes * MODES * min(DIMENSIONS, features),
    }
    check_room("this task", parts, "make it of fewer clients, examples, features or classes", on_host())


def _mixture(features: int, classes: int, separation: float, noise: float, seed: int) -> _Mixture:
    positive("separation", separation)
    at_least("noise", noise, 0)
    check_seed("partition_seed", seed)
    draws = np.random.default_rng(seed)
    dimensions = min(DIMENSIONS, features)
    centres = separation * draws.standard_normal((classes, MODES, dimensions), np.float32)
    spread = draws.standard_normal((dimensions, features), np.float32)
    spread /= np.sqrt(dimensions * (1 + separation**2))
    return _Mixture(centres.astype(np.float32), spread.astype(np.float32), float(noise), draws)


def _shape(features: Any) -> tuple[int, ...]:
    """The shape of one example."""
    given = [features] if isinstance(features, int | np.integer) else features
    if not isinstance(given, Sequence) or isinstance(given, str) or not given:
        raise ValueError(f"features must be a whole number or a shape such as [28, 28], found {features!r}")
    for number in given:
        integer("features (a number, or each of a shape)", number)
    return tuple(map(int, given))
