"""Correlated noise, as a proof at client level sees it: which server rules hold some, and how far a client moves it."""

from functools import lru_cache

from hush.core.contract import ServerRule
from hush.privacy.proofs import Proofs
from hush.server import (
    AdaptingClip,
    Add,
    AddDynamic,
    AddNormalised,
    AddToShared,
    AddWithControl,
    CorrelatedNoise,
    Gather,
    Krum,
    Median,
    Optimiser,
    Replace,
    TrimmedMean,
)

# The rules of correlated noise that a server rule holds; nothing else that it does to what was received costs anything.
by_server: Proofs[tuple[CorrelatedNoise, ...]] = Proofs("server rule")


@by_server.register(Add, Replace, AddWithControl, AddNormalised, AddDynamic, AddToShared, Gather, Optimiser)
def _(server: ServerRule) -> tuple[CorrelatedNoise, ...]:
    return ()


@by_server.register(AdaptingClip, Median, TrimmedMean, Krum)
def _(server: AdaptingClip | Median | TrimmedMean | Krum) -> tuple[CorrelatedNoise, ...]:
    return by_server(server.inner)


@by_server.register(CorrelatedNoise)
def _(server: CorrelatedNoise) -> tuple[CorrelatedNoise, ...]:
    return (server, *by_server(server.inner))


@lru_cache(maxsize=256)
def reach_of(rounds: int, bands: int, separation: int) -> float:
    """How far one client moves the whole run; kept, as a search for noise asks for it again and again."""
    return CorrelatedNoise(1.0, rounds, bands).sensitivity(separation)
