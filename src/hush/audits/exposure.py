"""Exposure of planted secrets: Carlini et al. 2019, "The Secret Sharer".

A secret is drawn evenly from a set R of candidates and planted in a client's data; after training, candidates are
ranked by the model's loss. exposure = log₂|R| − log₂ rank, in bits: all of log₂|R| where the model finds nothing
likelier than the secret. Of a secret that was never planted the rank is uniform: P(exposure ≥ t) ≤ 2⁻ᵗ, and its mean is
about log₂ e = 1.44 bits.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import log2
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zlib import crc32

import numpy as np
import pandas as pd

from hush.audits.beside import DELTA, in_full, is_promised, promised
from hush.audits.claims import Claim
from hush.audits.ranks import Array, Rank, chance
from hush.audits.secrets import kind_of, planted
from hush.core.algorithm import Algorithm, InTurn, name_of
from hush.core.check import integer
from hush.core.check import seed as check_seed
from hush.core.flat import unravelled
from hush.core.problem import Problem, numbers_of
from hush.extras import require
from hush.runs.run import run
from hush.tasks.problem import Supervised

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LENGTH = 3
SECRETS, CONTROLS = 10, 100


@dataclass(frozen=True, eq=False)
class Exposure:
    """How far secrets that clients held can be told from what else they could have been."""

    name: str
    words: str  # what a secret is
    planted: tuple[Rank, ...]
    controls: tuple[Rank, ...]  # of secrets that nobody held
    holders: tuple[int, ...]  # the client of each planted secret
    copies: int
    examples: int  # of its client's that a secret takes the place of, with all its copies
    rounds: int
    claim: Claim  # of the model after all rounds

    @property
    def most(self) -> float:
        """log₂|R|, in bits: the exposure of a secret that the model finds likelier than all others."""
        return log2(self.planted[0].candidates)

    @property
    def exact(self) -> bool:
        """Whether every rank was counted; otherwise some are estimated by a law fitted to a sample."""
        return all(each.exact for each in self.planted + self.controls)

    @cached_property
    def chance(self) -> float:
        """How likely so many secrets that nobody planted would have as much exposure together."""
        return chance(list(self.planted))

    @property
    def table(self) -> pd.DataFrame:
        """A row for each secret, those that nobody held with client −1."""
        ranks = self.planted + self.controls
        return pd.DataFrame(
            {
                "planted": [True] * len(self.planted) + [False] * len(self.controls),
                "client": [*self.holders, *[-1] * len(self.controls)],
                "rank": [each.rank for each in ranks],
                "candidates": [each.candidates for each in ranks],
                "exposure": [each.exposure for each in ranks],
                "exact": [each.exact for each in ranks],
            }
        )

    @property
    def guarantee(self) -> str:
        """What is promised of the run, in words; exposure is no bound on its ε."""
        several = is_promised(self.claim) and self.claim.unit == "example" and self.examples > 1
        return in_full(self.claim) + (f", and a secret is {self.examples} examples" if several else "")

    def __str__(self) -> str:
        held, free = (np.mean([each.exposure for each in ranks]) for ranks in (self.planted, self.controls))
        return (
            f"{self.name}: exposure {held:.1f} bits of {self.most:.1f} on average, {free:.1f} of secrets that nobody "
            f"held; by chance once in {1 / max(self.chance, 1e-300):.2g} times; {self.guarantee}"
        )

    def figure(self, *others: "Exposure") -> "Figure":
        """Every client's secret by its exposure, beside those that nobody held; a row for each other run, below."""
        require("matplotlib")
        from hush.audits.pictures import exposures

        return exposures((self, *others))

    def save(self, path: str | Path, *others: "Exposure") -> Path:
        """Write the figure as a PNG file."""
        figure, target = self.figure(*others), Path(path)
        from hush.report.style import write_png

        target.parent.mkdir(parents=True, exist_ok=True)
        write_png(figure, target)
        return target


def exposure(
    algorithm: Algorithm | InTurn,
    problem: Problem,
    rounds: int,
    *,
    secrets: int = SECRETS,
    clients: int | Sequence[int] | None = None,
    copies: int = 1,
    length: int = LENGTH,
    symbols: Sequence[int] | None = None,
    controls: int = CONTROLS,
    seed: int = 0,
    delta: float = DELTA,
    progress: Callable[[str], None] | None = None,
) -> Exposure:
    """Plant secrets in clients' data, train, and ask the model for them.

    secrets     how many are planted, each in one client's data, in the place of examples that it held
    clients     who holds them, in turn; by themselves as many clients as there are secrets, drawn by the seed
    copies      how often a client holds its secret
    length      of a secret: inputs whose labels are secret, or symbols of a text
    symbols     tokens that a secret of text is made of; by themselves 1 to 10, the digits of the usual vocabulary
    controls    how many more are drawn and never planted, to be ranked beside
    seed        of the secrets, and of the run
    delta       of the guarantee that stands beside
    progress    a function that is told in words how it gets on

    The rank is counted over all candidates where there are few enough, which the table says.

    >>> import hush
    >>> found = exposure(hush.fedavg(steps=5, lr=0.1), hush.tasks.digits(clients=4), rounds=2, secrets=2)
    >>> len(found.table), bool(0 <= found.table.exposure.min() <= found.table.exposure.max() <= found.most)
    (102, True)
    """
    for name, value in (("secrets", secrets), ("copies", copies), ("controls", controls)):
        integer(name, value)
    check_seed("seed", seed)
    kind, tell = kind_of(problem, length, symbols), progress or (lambda words: None)
    assert isinstance(problem, Supervised)  # no others have a kind
    holders = _holders(problem, secrets, clients, _draws(seed, "holders"))
    drawn = [kind.drawn(_draws(seed, "planted", number)) for number in range(secrets)]
    drawn += [kind.drawn(_draws(seed, "control", number)) for number in range(controls)]
    held = planted(problem, drawn[:secrets], holders, copies)
    tell(f"training for {rounds} rounds with {secrets} secrets among {kind.candidates:,} candidates each")
    result = run(algorithm, held, rounds, seed=seed, evaluate_every=rounds, progress=False)
    tell(f"ranking {secrets} secrets, and {controls} that nobody held")
    ranks = kind.ranks(unravelled(problem, result.vector[0]), drawn, _draws(seed, "candidates"))
    return Exposure(
        name=name_of(algorithm) or "this algorithm",
        words=kind.words,
        planted=tuple(ranks[:secrets]),
        controls=tuple(ranks[secrets:]),
        holders=tuple(holders),
        copies=copies,
        examples=copies * len(drawn[0].y),
        rounds=rounds,
        claim=promised(algorithm, held, rounds, delta),
    )


def _draws(seed: int, purpose: str, number: int = 0) -> np.random.Generator:
    """Draws at an address: a secret is the same however many others there are."""
    return np.random.default_rng([seed, crc32(purpose.encode()), number])


def _holders(
    problem: Problem, secrets: int, clients: int | Sequence[int] | None, draws: np.random.Generator
) -> list[int]:
    """The client of each secret."""
    population = problem.population.clients
    if clients is None:
        order: Array = draws.permutation(population)
    else:
        given: Any = [clients] if isinstance(clients, int | np.integer) else list(clients)
        numbers_of(given, population)
        order = np.asarray(given)
    return [int(client) for client in np.resize(order, secrets)]
