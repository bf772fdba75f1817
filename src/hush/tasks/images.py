"""Image tasks: a data set, a partition over clients, a model."""

from collections.abc import Callable
from typing import Any

import numpy as np

from hush.core.check import known
from hush.tasks import partitions
from hush.tasks.datasets import load
from hush.tasks.measures import MEASURES, classification
from hush.tasks.problem import Recipe, Supervised, supervised
from hush.tasks.wrap import wrap


def _partition(
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
        examples = examples_per_client or len(labels) // clients
        return partitions.dominant_classes(labels, clients, examples, dominant_classes, seed=seed)
    if dirichlet is not None:
        return partitions.dirichlet(labels, clients, dirichlet, seed)
    if power_law is not None:
        return partitions.power_law(labels, clients, power_law, seed)
    return partitions.iid(labels, clients, seed, examples_per_client, overlap)


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
        standardise: bool = False,
        partition_seed: int = 0,
    ) -> Supervised:
        settings = {key: value for key, value in locals().items() if key != "name" and value is not None}
        data = load(name)
        parts = _partition(
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
            wrap(model, data.train_x.shape[1:], data.classes, model_options),
            classification,
            test=(data.test_x, data.test_y),
            scale=1 / (255 * deviation),
            shift=-mean / deviation,
            recipe=recipe,
        )

    task.__name__ = task.__qualname__ = name
    task.__doc__ = f"""The {name} images over `clients` clients, with a model by name or one of your own.

    The partition is i.i.d. unless one of these is given: `classes_per_client` (paper 000's HET), `dominant_classes`
    (paper 002's mixture: so many classes hold 92 %), `dirichlet` (its α), `power_law` (the exponent of sizes).
    `examples_per_client` takes fewer than there are, `overlap` lets clients share examples.
    Pixels are scaled to [0, 1]; `standardise` also takes off the mean and divides by the deviation of each channel.
    """
    return task


digits = _task("digits", 20)
mnist = _task("mnist", 100)
fashion_mnist = _task("fashion_mnist", 100)
emnist_digits = _task("emnist_digits", 100)
cifar10 = _task("cifar10", 100)


def arrays(
    x: Any,
    y: Any,
    client_ids: Any,
    *,
    model: Any,
    test: tuple[Any, Any] | None = None,
    kind: str = "classification",
    model_options: dict[str, Any] | None = None,
    scale: Any = 1.0,
    shift: Any = 0.0,
) -> Supervised:
    """Your own examples: x [n, …], y [n] and for each of them the id of the client that holds it (ints or strings).

    `kind` is classification (labels 0, 1, …), regression or binary; `test` a pair of arrays like x and y.
    The model is fed `x · scale + shift`; bytes stay bytes until then, at a quarter of the memory.
    """
    known("kind", kind, MEASURES)
    pairs = [("x and y", x, y)] + ([("test", *test)] if test is not None else [])
    checked = []
    for name, inputs, targets in pairs:
        inputs, targets = np.asarray(inputs), np.asarray(targets)
        if len(inputs) != len(targets) or len(inputs) == 0:
            raise ValueError(
                f"{name} must be as long as each other and not empty, found {len(inputs)} and {len(targets)}"
            )
        if not np.isfinite(inputs).all() or not np.isfinite(targets).all():
            raise ValueError(f"{name} must be finite numbers, found NaN or infinity")
        inputs = inputs if inputs.dtype in (np.uint8, np.float32) else inputs.astype(np.float32)
        checked.append((inputs, targets.astype(np.int32 if kind == "classification" else np.float32)))
    if len(np.asarray(client_ids)) != len(checked[0][0]):
        raise ValueError(
            f"client_ids must name a client for each of {len(checked[0][0])} examples, found {len(client_ids)}"
        )
    classes = int(max(targets.max() for _, targets in checked)) + 1 if kind == "classification" else 1
    if kind == "classification" and min(targets.min() for _, targets in checked) < 0:
        raise ValueError("labels must be 0, 1, …, found negative ones")
    parts, _ = partitions.by_client_id(client_ids)
    made = wrap(model, checked[0][0].shape[1:], classes, model_options)
    held_out = checked[1] if test is not None else None
    return supervised(checked[0], parts, made, MEASURES[kind], test=held_out, scale=scale, shift=shift)
