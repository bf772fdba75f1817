"""The attacks by name: what each needs, and how it is asked."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hush.algorithms import distributed_sgd
from hush.audits.canaries import canaries
from hush.audits.claims import COVERED, Claim
from hush.audits.example_canaries import check_supervised
from hush.audits.exposure import exposure
from hush.audits.folder import Measurements
from hush.audits.membership import membership
from hush.audits.messages import check_images, check_labelled
from hush.audits.observing import check_seen
from hush.audits.pairs import audit_pairs
from hush.audits.reconstruction import compare_reconstructions
from hush.core.algorithm import Algorithm, InTurn, name_of
from hush.core.problem import Problem
from hush.tasks.problem import Supervised

Progress = Callable[[float, str], None]
PICTURES = 8  # clients, one message of each


@dataclass(frozen=True)
class Asked:
    """What every attack is told."""

    algorithm: Algorithm | InTurn
    problem: Problem
    rounds: int
    claim: Claim
    adversary: str | None  # the strongest that the claim covers, if none is named
    confidence: float
    seed: int
    lanes: int | None = None  # as many as the attack takes by itself
    measured: Measurements | None = None
    proved: bool = False  # whether the claim is the accountant's, which an attack may ask again for its worst case

    @property
    def sees(self) -> str:
        """What the adversary sees."""
        return self.adversary or COVERED[self.claim.trust][-1]

    @property
    def sure(self) -> dict[str, Any]:
        """What attacks that end in a bound have in common."""
        return {"delta": self.claim.delta, "confidence": self.confidence, "seed": self.seed}


@dataclass(frozen=True)
class Method:
    """One kind of attack."""

    attack: Callable[[Asked, Progress], Any]
    words: str
    bounds: bool = True  # whether it ends in a lower bound on ε
    chooses: bool = True  # whether its adversary may be named; otherwise it is always the same
    supervised: bool = True  # whether it needs data and a model, and not any problem
    fits: Callable[[Asked], object] = lambda _: None  # refuses what it cannot be made on


def _pairs(asked: Asked, progress: Progress) -> Any:
    claim = asked.claim
    chosen: dict[str, Any] = {} if asked.lanes is None else {"lanes": asked.lanes}
    about: dict[str, Any] = {"unit": claim.unit, "trust": claim.trust} if asked.proved else {"claim": claim}
    chosen |= about | asked.sure | {"adversary": asked.adversary, "measured": asked.measured}
    return audit_pairs(asked.algorithm, asked.problem, asked.rounds, progress=progress, **chosen)


def _canaries(asked: Asked, progress: Progress) -> Any:
    about: dict[str, Any] = {"claim": asked.claim, "unit": asked.claim.unit, "adversary": asked.adversary}
    return canaries(asked.algorithm, asked.problem, asked.rounds, progress=progress, **about, **asked.sure)


def _fits_canaries(asked: Asked) -> None:
    check_seen(asked.algorithm, asked.problem, asked.sees)
    if asked.claim.unit == "example":
        check_supervised(asked.problem)


def _membership(asked: Asked, progress: Progress) -> Any:
    return membership(asked.algorithm, asked.problem, asked.rounds, claim=asked.claim, progress=progress, **asked.sure)


def _reconstruction(asked: Asked, progress: Progress) -> Any:
    assert isinstance(asked.algorithm, Algorithm)  # or it was refused
    clients = range(min(PICTURES, asked.problem.population.clients))
    named = {"unprotected": distributed_sgd(), name_of(asked.algorithm) or "this algorithm": asked.algorithm}
    told = _in_words(progress)
    return compare_reconstructions(
        named, asked.problem, client=clients, seed=asked.seed, delta=asked.claim.delta, progress=told
    )


def _fits_reconstruction(asked: Asked) -> None:
    check_images(asked.problem)
    if isinstance(asked.algorithm, InTurn):
        raise ValueError(
            f"reconstruction takes an algorithm with one message a round, found {len(asked.algorithm.phases)} phases"
        )


def _exposure(asked: Asked, progress: Progress) -> Any:
    told, delta = _in_words(progress), asked.claim.delta
    return exposure(asked.algorithm, asked.problem, asked.rounds, seed=asked.seed, delta=delta, progress=told)


def _in_words(progress: Progress) -> Callable[[str], None]:
    """For an attack that says what it does, and not how far it is."""
    return lambda words: progress(0.5, words)


METHODS = {
    "pairs": Method(
        _pairs, "many runs of two neighbouring worst cases, told apart by what the adversary sees", supervised=False
    ),
    "canaries": Method(_canaries, "one run with planted canaries, of which half are in", fits=_fits_canaries),
    "membership": Method(
        _membership, "who was trained on, from losses of the model", chooses=False,
        fits=lambda asked: check_supervised(asked.problem),
    ),
    "reconstruction": Method(
        _reconstruction, "examples, got back from single messages", bounds=False, chooses=False,
        fits=_fits_reconstruction,
    ),
    "exposure": Method(
        _exposure, "secrets that the model has learnt by heart", bounds=False, chooses=False,
        fits=lambda asked: check_labelled(asked.problem, "exposure"),
    ),
}  # fmt: skip


def check_fit(name: str, asked: Asked) -> None:
    """Refuse an attack that does not fit what is to be attacked."""
    if METHODS[name].supervised and not isinstance(asked.problem, Supervised):
        found = type(asked.problem).__name__
        raise ValueError(f"{name} needs a problem of data and a model, found {found}; pairs fits any")
    METHODS[name].fits(asked)
