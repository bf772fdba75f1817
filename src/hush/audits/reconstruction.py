"""Gradient inversion: the examples that one message of a client gives away, as pictures with and without privacy."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from hush.audits.beside import DELTA, in_full, promised
from hush.audits.claims import Claim
from hush.audits.inversion import Guess, Told, by_optimisation, in_closed_form, labels_of
from hush.audits.likeness import Array, is_image, matched, psnr, relative_error, ssim
from hush.audits.messages import Domain, alone, check_images, domain, flat_model, holding_few, sent
from hush.core.algorithm import Algorithm, name_of
from hush.core.check import integer, known, shown
from hush.core.keys import at, root
from hush.core.problem import Problem, Vector
from hush.extras import require
from hush.tasks.problem import Supervised

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STEPS = 500
WAYS = ("closed form", "optimisation")


@dataclass(frozen=True, eq=False)
class Reconstruction:
    """What messages of clients gave away: each original beside what was made of its message."""

    name: str
    clients: Array  # [n], whose each example is
    originals: Array  # [n, …], from 0 to 1
    found: Array  # [n, …], each in the place of the original that it is nearest to
    labels: Array  # [n]
    found_labels: Array  # [n]
    way: str  # closed form, or optimisation
    examples: int  # that each message is of
    claim: Claim  # of one message, against who sees it
    domain: Domain = field(repr=False)
    features: tuple[str, ...] | None = field(default=None, repr=False)

    @property
    def errors(self) -> Array:
        """‖x̂ − x‖² / ‖x − x̄‖² of each example: 0 is the example itself, 1 what the best constant guess has."""
        return np.array([relative_error(*pair) for pair in zip(self.originals, self.found, strict=True)])

    @property
    def is_image(self) -> bool:
        """Whether the inputs can be shown."""
        return is_image(self.originals.shape[1:])

    @property
    def table(self) -> pd.DataFrame:
        """A row for each example: whose it is, its label and the one found, and how near the reconstruction is."""
        pairs = list(zip(self.originals, self.found, strict=True))
        measures = {"psnr": psnr, "ssim": ssim} if self.is_image else {}
        return pd.DataFrame(
            {
                "client": self.clients,
                "label": self.labels,
                "found_label": self.found_labels,
                "error": self.errors,
                **{name: [measure(*pair) for pair in pairs] for name, measure in measures.items()},
            }
        )

    @property
    def values(self) -> pd.DataFrame:
        """A row for each number of each example, in the data's own units: what it was, and what was found."""
        size = self.originals[0].size
        return pd.DataFrame(
            {
                "example": np.repeat(np.arange(len(self.originals)), size),
                "client": np.repeat(self.clients, size),
                "feature": list(self.features or map(str, range(size))) * len(self.originals),
                "original": self.domain.raw(self.originals).ravel(),
                "found": self.domain.raw(self.found).ravel(),
            }
        )

    @property
    def guarantee(self) -> str:
        """What is promised of one message against who sees it, in words."""
        return in_full(self.claim)

    def figure(self) -> "Figure":
        """The originals above, the reconstructions below; of inputs that are no images, numbers against numbers."""
        return _figure((self,))

    def save(self, path: str | Path) -> Path:
        """Write the figure as a PNG file; of inputs that are no images, the values as CSV."""
        return _save((self,), path)


@dataclass(frozen=True, eq=False)
class Reconstructions:
    """The same examples behind messages of several algorithms, one picture."""

    each: tuple[Reconstruction, ...]

    def __getitem__(self, name: str) -> Reconstruction:
        known("algorithm", name, [one.name for one in self.each])
        return next(one for one in self.each if one.name == name)

    @property
    def table(self) -> pd.DataFrame:
        """All rows, with the algorithm's name and its guarantee."""
        rows = [one.table.assign(algorithm=one.name, guarantee=one.guarantee) for one in self.each]
        return pd.concat(rows, ignore_index=True)

    def figure(self) -> "Figure":
        """The originals in the first row, then a row for each algorithm."""
        return _figure(self.each)

    def save(self, path: str | Path) -> Path:
        """Write the figure as a PNG file; of inputs that are no images, all values as CSV."""
        return _save(self.each, path)


def reconstruct(
    algorithm: Algorithm,
    problem: Problem,
    *,
    client: int | Sequence[int] = 0,
    examples: int = 1,
    seed: int = 0,
    model: Any = None,
    way: str | None = None,
    steps: int = STEPS,
    delta: float = DELTA,
    name: str | None = None,
    progress: Told | None = None,
) -> Reconstruction:
    """Invert one message of a client: what does who sees it learn of the examples that it is of?

    client      whose message; of a list, one message of each
    examples    how many of its examples the client holds: the message is of these alone
    seed        of the run, whose first round the message is of
    model       that is broadcast, flat (such as result.vector[0]) or as parameters; by itself the one a run starts from
    way         "closed form" or "optimisation"; by itself the first where there is one
    steps       of the optimisation
    delta       of the guarantee that stands beside
    progress    a function that is told in words how it gets on

    The adversary sees each message, and knows the algorithm, the model and the number of examples. It does not know
    the client's draws, nor its labels: these are read off the message too. It goes through the local steps of the
    client with examples that it guesses, and takes what the uplink does for errors.

    >>> import hush
    >>> problem = hush.tasks.digits(clients=20)
    >>> bare = reconstruct(hush.distributed_sgd(), problem, client=3)
    >>> bare.way, bool(bare.errors[0] < 1e-3), bool(bare.found_labels[0] == bare.labels[0])
    ('closed form', True, True)
    """
    task = check_images(problem)
    clients = [int(each) for each in np.atleast_1d(np.asarray(client))]
    integer("steps", steps)
    if way is not None:
        known("way", way, WAYS)
    vector = flat_model(task, model, seed)
    pieces = []
    for number in clients:
        few = holding_few(task, number, examples)
        tell = None if progress is None else _about(progress, f"client {number}: ")
        guess = _inverted(algorithm, few, number, vector, seed, way, steps, tell)
        pieces.append(_in_order(guess, few, number))
    originals, found, labels, found_labels, ways = zip(*pieces, strict=True)
    return Reconstruction(
        name=name if name is not None else name_of(algorithm) or type(algorithm.local).__name__,
        clients=np.repeat(clients, examples),
        originals=np.concatenate(originals),
        found=np.concatenate(found),
        labels=np.concatenate(labels),
        found_labels=np.concatenate(found_labels),
        way=" and ".join(dict.fromkeys(ways)),
        examples=examples,
        claim=promised(algorithm, few, 1, delta, "local", examples),
        domain=domain(task),
        features=task.features,
    )


def compare_reconstructions(
    algorithms: Mapping[str, Algorithm], problem: Problem, *, progress: Told | None = None, **options: Any
) -> Reconstructions:
    """The same examples behind messages of several algorithms, by name: one picture of what privacy hides.

    Options are those of `reconstruct`.

    >>> import hush
    >>> private = hush.private_fedpaq(steps=1, batch=None, noise_multiplier=20.0)
    >>> found = compare_reconstructions({"bare": hush.distributed_sgd(), "private": private}, hush.tasks.digits())
    >>> bool(found["bare"].errors[0] < 1e-3 < 0.5 < found["private"].errors[0])
    True
    """
    if not isinstance(algorithms, Mapping) or not algorithms:
        raise ValueError(f"algorithms are given by name, as {{'FedAvg': hush.fedavg(…), …}}, found {shown(algorithms)}")
    each = []
    for name, algorithm in algorithms.items():
        tell = None if progress is None else _about(progress, f"{name}, ")
        each.append(reconstruct(algorithm, problem, progress=tell, **(options | {"name": str(name)})))
    return Reconstructions(tuple(each))


def _about(progress: Told, before: str) -> Told:
    return lambda words: progress(before + words)


def _inverted(
    algorithm: Algorithm,
    few: Supervised,
    client: int,
    model: Vector,
    seed: int,
    way: str | None,
    steps: int,
    progress: Told | None,
) -> Guess:
    """What the adversary makes of one message; of `few` it is told only what it may know: sizes and shapes."""
    seen = sent(algorithm, few, client, model, seed)
    single, key = alone(few, client), at(root(seed), "reconstruction", client)
    labels = labels_of(few, seen, len(single.train.y), at(key, "predictions"))
    if way != "optimisation":
        inputs = in_closed_form(few, seen, labels, domain(few))
        if inputs is not None:
            return Guess(inputs, labels, "closed form")
        if way == "closed form":
            raise ValueError(
                "a closed form is known of one example of a model that begins with a linear layer, and of several in "
                "one step of a linear model that starts at zero and some of whose classes have no example; use "
                "way='optimisation'"
            )
    inputs = by_optimisation(algorithm, single, seen, labels, domain(few), key, steps, progress)
    return Guess(inputs, labels, "optimisation")


def _in_order(guess: Guess, few: Supervised, client: int) -> tuple[Array, Array, Array, Array, str]:
    """Originals and what was found, each beside the other."""
    own = alone(few, client).train
    originals = domain(few).unit(own.x)
    order = matched(originals, guess.inputs)
    return originals, guess.inputs[order], np.asarray(own.y), guess.labels[order], guess.way


def _figure(each: Sequence[Reconstruction]) -> "Figure":
    require("matplotlib")
    from hush.audits.pictures import numbers, pictures

    return pictures(each) if each[0].is_image else numbers(each)


def _save(each: Sequence[Reconstruction], path: str | Path) -> Path:
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    if not each[0].is_image:
        pd.concat([one.values.assign(algorithm=one.name) for one in each]).to_csv(target, index=False)
        return target
    figure = _figure(each)
    from hush.report.style import write_png

    write_png(figure, target)
    return target
