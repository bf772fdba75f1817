"""Image tasks: a data set, a partition over clients, a model."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from hush.core.check import flag, integer, known
from hush.data import partitions
from hush.data.datasets import Dataset, load, pixel_scale
from hush.models.products import FLOAT32, check_precision
from hush.models.wrap import IN_BFLOAT16, wrap
from hush.tasks.measures import classification
from hush.tasks.problem import Names, Recipe, Supervised, supervised

USES = ("rest", "set-aside")


def partition(
    labels: Any,
    clients: int,
    seed: int,
    classes_per_client: int | None,
    dominant_classes: int | None,
    dirichlet: float | None,
    power_law: float | None,
    examples_per_client: int | None,
    overlap: bool,
) -> list[Any]:
    """Who holds what; at most one of the kinds of unequal partition."""
    asked = {
        "classes_per_client": classes_per_client,
        "dominant_classes": dominant_classes,
        "dirichlet": dirichlet,
        "power_law": power_law,
    }
    chosen = [name for name, value in asked.items() if value is not None]
    if len(chosen) > 1:
        raise ValueError(f"a partition is of one kind, found {', '.join(chosen)}; none of them is i.i.d.")
    if chosen and chosen != ["dominant_classes"] and (examples_per_client is not None or overlap):
        raise ValueError(f"examples_per_client and overlap go with an i.i.d. partition, found them with {chosen[0]}")
    if classes_per_client is not None:
        return partitions.classes_per_client(labels, clients, classes_per_client, seed)
    if dominant_classes is not None:
        integer("clients", clients, 1, len(labels) if examples_per_client is None else None)
        examples = len(labels) // clients if examples_per_client is None else examples_per_client
        return partitions.dominant_classes(labels, clients, examples, dominant_classes, seed=seed)
    if dirichlet is not None:
        return partitions.dirichlet(labels, clients, dirichlet, seed)
    if power_law is not None:
        return partitions.power_law(labels, clients, power_law, seed)
    return partitions.iid(labels, clients, seed, examples_per_client, overlap)


def _used(data: Dataset, set_aside: float | None, use: str, seed: int) -> Dataset:
    """What a task is made of: all there is, what is left of it when a part is set aside, or that part."""
    known("use", use, USES)
    if set_aside is None:
        if use != "rest":
            raise ValueError(f"use={use!r} goes with set_aside, the share of examples that is dealt to no client")
        return data
    test, aside, rest = partitions.set_aside(len(data.train_y), set_aside, seed)
    # Of examples that no client holds, neither in the one use nor in the other.
    scale = pixel_scale(data.train_x[test])
    if use == "rest":
        return replace(data, train_x=data.train_x[rest], train_y=data.train_y[rest], scale=scale)
    return Dataset(
        data.name,
        data.train_x[aside],
        data.train_y[aside],
        data.train_x[test],
        data.train_y[test],
        data.classes,
        scale,
    )


def _task(name: str, default_clients: int) -> Callable[..., Supervised]:
    def task(
        clients: int = default_clients,
        *,
        classes_per_client: int | None = None,
        dominant_classes: int | None = None,
        dirichlet: float | None = None,
        power_law: float | None = None,
        examples_per_client: int | None = None,
        overlap: bool = False,
        model: Any = "softmax",
        model_options: dict[str, Any] | None = None,
        precision: str = FLOAT32,
        standardise: bool = False,
        partition_seed: int = 0,
        set_aside: float | None = None,
        use: str = "rest",
    ) -> Supervised:
        settings = {key: value for key, value in locals().items() if key != "name" and value is not None}
        flag("overlap", overlap)
        flag("standardise", standardise)
        check_precision(precision, model, IN_BFLOAT16)  # before anything is read, or downloaded
        data = _used(load(name), set_aside, use, partition_seed)
        parts = partition(
            data.train_y,
            clients,
            partition_seed,
            classes_per_client,
            dominant_classes,
            dirichlet,
            power_law,
            examples_per_client,
            overlap,
        )
        mean, deviation = (np.asarray(value) for value in data.scale) if standardise else (np.zeros(1), np.ones(1))
        recipe = Recipe(name=name, **settings) if isinstance(model, str) else None
        return supervised(
            (data.train_x, data.train_y),
            parts,
            wrap(model, data.train_x.shape[1:], data.classes, model_options, precision),
            classification,
            test=(data.test_x, data.test_y),
            scale=1 / (255 * deviation),
            shift=-mean / deviation,
            recipe=recipe,
            names=Names(scaled_by="constants" if standardise and set_aside is None else "given"),
        )

    task.__name__ = task.__qualname__ = name
    task.__doc__ = f"""The {name} images, dealt to `clients` clients.

    The model is one by name, or one of your own.
    `precision` is that of the model's products, "float32" or, on a GPU, "bfloat16": docs/speed.md.
    The partition is i.i.d. unless one of these is given: `classes_per_client` (HET of paper fedpaq-dp),
    `dominant_classes` (the mixture of paper clipping: so many classes hold 92 %), `dirichlet` (its α) or `power_law`
    (the exponent of sizes). `examples_per_client` takes fewer than there are, `overlap` lets clients share examples.
    Pixels are scaled to [0, 1]; `standardise` also takes off the mean and divides by the deviation of each channel:
    constants of the data set, which a guarantee takes for known, or, with `set_aside`, of examples that no client gets.
    `set_aside` is a share of the training examples that no client gets, and `use="set-aside"` is the task made of them
    alone, to plan on: a fifth of them is its test set, the others are dealt in the same way to as many clients.
    """
    return task


digits = _task("digits", 20)
mnist = _task("mnist", 100)
fashion_mnist = _task("fashion_mnist", 100)
emnist_digits = _task("emnist_digits", 100)
cifar10 = _task("cifar10", 100)
