"""The attacks by name: what each needs, and how it is asked."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hush.audits.claims import Claim
from hush.audits.folder import Measurements
from hush.core.algorithm import Algorithm, InTurn
from hush.core.problem import Problem
from hush.tasks.problem import Supervised

Progress = Callable[[float, str], None]


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
    def about(self) -> dict[str, Any]:
        """As every attack that ends in a bound takes it."""
        claim = self.claim
        return {
            "claim": None if self.proved else claim,
            "delta": claim.delta,
            "unit": claim.unit,
            "trust": claim.trust,
            "adversary": self.adversary,
            "confidence": self.confidence,
            "seed": self.seed,
        }


@dataclass(frozen=True)
class Method:
    """One kind of attack."""

    attack: Callable[[Asked, Progress], Any]
    words: str
    bounds: bool = True  # whether it ends in a lower bound on ε
    supervised: bool = False  # whether it needs data and a model, and not any problem


def _pairs(asked: Asked, progress: Progress) -> Any:
    from hush.audits.pairs import audit_pairs

    chosen: dict[str, Any] = {} if asked.lanes is None else {"lanes": asked.lanes}
    about = asked.about | chosen
    return audit_pairs(
        asked.algorithm, asked.problem, asked.rounds, progress=progress, measured=asked.measured, **about
    )


def _canaries(asked: Asked, progress: Progress) -> Any:
    from hush.audits.canaries import canaries

    return canaries(asked.algorithm, asked.problem, asked.rounds, progress=progress, **asked.about)


def _membership(asked: Asked, progress: Progress) -> Any:
    from hush.audits.membership import membership

    return membership(asked.algorithm, asked.problem, asked.rounds, progress=progress, **asked.about)


def _reconstruction(asked: Asked, progress: Progress) -> Any:
    from hush.audits.reconstruction import reconstruct

    return reconstruct(asked.algorithm, asked.problem, seed=asked.seed, progress=progress)


def _exposure(asked: Asked, progress: Progress) -> Any:
    from hush.audits.exposure import exposure

    return exposure(asked.algorithm, asked.problem, asked.rounds, seed=asked.seed, progress=progress)


METHODS = {
    "pairs": Method(_pairs, "many runs of two neighbouring worst cases, told apart by what the adversary sees"),
    "canaries": Method(_canaries, "one run, or a few, with planted canaries of which half are in", supervised=True),
    "membership": Method(_membership, "whose data was trained on, from losses of the model", supervised=True),
    "reconstruction": Method(_reconstruction, "examples, got back from one message", bounds=False, supervised=True),
    "exposure": Method(_exposure, "secrets that a model of text has learnt by heart", bounds=False, supervised=True),
}


def why_not(name: str, problem: Problem) -> str:
    """Why an attack does not fit a problem; nothing where it does."""
    if METHODS[name].supervised and not isinstance(problem, Supervised):
        return (
            f"{name} needs a problem of data and a model (hush.tasks), found {type(problem).__name__}; pairs fits any"
        )
    return ""
