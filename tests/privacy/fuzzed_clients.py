"""What one client can really do to what is seen, beside the noise that is really there: client level.

A local rule may compute anything, so that vectors of every kind go straight into the uplink. What is left of them is
mixed as the channel really mixes the cohort's real draws.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from fuzzed_pieces import FEATURES, Dice, Says

from hush.channel import OverTheAir
from hush.core.algorithm import init_client
from hush.core.contract import Statistics
from hush.core.keys import at, root
from hush.local import ClippedToBroadcast
from hush.privacy import Guarantee, Subset
from hush.server import CorrelatedNoise, Replace
from hush.uplink import Gaussian, GridGaussian

NOISE = (Gaussian, GridGaussian)  # the stages that add a client's noise
CLIPS = (0.0, 1e-37, 3e38, np.inf, -1.0, np.nan)  # the bounds that a server may send beside those it may come to


class Finding(NamedTuple):
    """One mechanism of one algorithm, measured: what was accounted for is 1."""

    kind: str
    ratio: float  # how far a unit moved what is seen, over its noise, over what was accounted for: at most 1
    noise: float = 1.0  # a sample's deviation over what it should be: about 1
    counted: bool = True  # whether it happens no more often than it was accounted for
    law: str = "gaussian"  # of the noise


def in_program(piece: Any) -> Any:
    """A piece with its settings as the engine has them: arrays of 32 bits, so that all values share one program."""
    floats = float | np.floating
    return jax.tree.map(lambda leaf: jnp.float32(leaf) if isinstance(leaf, floats) else leaf, piece)


@eqx.filter_jit
def through(stage: Any, key: Any, vectors: Any, residuals: Any) -> Any:
    """Every vector [V, d] through a stage, with a memory if it keeps one; its coins differ, its noise does not."""

    def one(number: Any, vector: Any, residual: Any) -> Any:
        state = jax.tree.map(lambda _: residual, stage.init(vector))
        return stage(key if type(stage) in NOISE else at(key, number), vector, state)[0]

    return jax.vmap(one)(jnp.arange(len(vectors)), vectors, residuals)


@eqx.filter_jit
def clipped_to(rule: ClippedToBroadcast, clip: Any, vectors: Any) -> Any:
    """What the client's half of adaptive clipping makes of every vector."""
    told = lambda vector: {"model": vector, "clip": clip[None]}  # noqa: E731
    return jax.vmap(lambda vector: rule(root(0), told(vector), {}, None)[0])(vectors)


def any_vectors(dice: Dice, bound: float) -> np.ndarray:
    """Long and short ones, opposite ones, at the bound, of one number, of none, and what is not a number."""
    way = dice.rng.normal(size=FEATURES)
    way /= np.linalg.norm(way)
    one, odd = np.zeros(FEATURES), way.copy()
    one[dice.whole(0, FEATURES - 1)] = 1
    odd[dice.whole(0, FEATURES - 1)] = dice.one(np.nan, np.inf, -np.inf, 1e38)
    mixed = way * 10.0 ** dice.rng.uniform(-30, 30, FEATURES)
    far = dice.log(1e-30, 1e30)
    rows = [far * way, -far * way, 1e18 * way, -1e18 * way, 1e38 * way, -3e38 * one,
            bound * way, -bound * way, 2 * bound * one, -bound * one,
            np.zeros(FEATURES), odd, mixed, 1e-30 * way]  # fmt: skip
    with np.errstate(over="ignore"):
        return np.asarray(rows, np.float32)


class Reach(NamedTuple):
    """How long a message can be, all its parts together, and how far apart two can be."""

    longest: float
    farthest: float


def reach(parts: list[np.ndarray], jointly: bool) -> Reach:
    """From the parts [V, ·] of messages; each part may be that of another vector, unless they go jointly."""
    longest, farthest = [], []
    for part in (np.asarray(part, float) for part in parts):
        if not np.isfinite(part).all():
            return Reach(np.inf, np.inf)
        longest.append(np.square(part).sum(1))
        farthest.append(np.square(part[:, None] - part[None]).sum(2))
    if jointly:
        return Reach(float(np.sqrt(np.sum(longest, 0).max())), float(np.sqrt(np.sum(farthest, 0).max())))
    return Reach(float(np.sqrt(sum(map(np.max, longest)))), float(np.sqrt(sum(map(np.max, farthest)))))


def sent(phase: Any, dice: Dice) -> tuple[Reach, float, float]:
    """The reach of a message before noise, the deviation of a client's own noise, and a sample's over that."""
    clips = [float(stage.bound) for stage in phase.uplink if hasattr(stage, "bound")]
    vectors = any_vectors(dice, clips[-1] if clips else dice.log(1e-9, 1e9))
    residuals = jnp.asarray(any_vectors(dice, 1.0))
    follows, key = type(phase.local) is ClippedToBroadcast, root(dice.whole(0, 2**31))
    if follows:
        rule = in_program(ClippedToBroadcast(Says(), phase.local.weight))
        parts = list(
            clipped_to(
                rule, jnp.float32(dice.one(dice.log(1e-18, 1e18), dice.log(1e-3, 1e3), *CLIPS)), jnp.asarray(vectors)
            ).values()
        )
    else:
        parts = [jnp.asarray(vectors[dice.rng.permutation(len(vectors))]) for _ in phase.local.sends]
    deviations = [float(np.float32(stage.std)) for stage in phase.uplink if type(stage) in NOISE]
    noise, slack = jnp.zeros((1, FEATURES)), 0.0  # slack: what rounding the sum with noise does, which is no matter
    for number, stage in enumerate(phase.uplink):
        stage_key, piece = at(key, number), in_program(stage)
        if type(stage) is GridGaussian:  # it clips as well: with the same noise on all, what is left is the clipped
            parts = [through(piece, stage_key, part, residuals) for part in parts]
            slack = 2.0**-23 * FEATURES**0.5 * 8 * float(np.hypot(stage.std, stage.bound)) * len(parts) ** 0.5
        if type(stage) in NOISE:
            noise = through(piece, stage_key, noise, noise)
        elif not np.any(noise):
            parts = [through(piece, at(stage_key, name), part, residuals) for name, part in enumerate(parts)]
    std = float(np.sqrt(np.square(deviations).sum()))
    sample = float(np.sqrt(np.mean(np.square(np.asarray(noise, float)))))
    far = reach(parts, jointly=follows)
    return far._replace(farthest=max(far.farthest - slack, 0)), std, sample / std if std else 1.0


def client_finding(phase: Any, guarantee: Guarantee, population: Any, rounds: int, dice: Dice) -> Finding:
    """A phase at client level."""
    (release, _), *_ = guarantee.of(0)
    far, own, sample = sent(phase, dice)
    moved = far.longest if release.relation == "add-or-remove" else far.farthest
    kind = "adaptive" if type(phase.local) is ClippedToBroadcast else guarantee.trust
    if guarantee.trust == "local":
        return Finding(kind, release.noise_multiplier * moved / own, sample)
    key = root(dice.whole(0, 2**31))
    draws = [phase.cohort(at(key, number), population, number) for number in range(rounds)]
    weights, noises = zip(
        *(_mixed(phase, at(key, "air"), draw, number) for number, draw in enumerate(draws)), strict=True
    )
    weights = np.array(weights)  # [rounds, N]
    if guarantee.whole_run is not None:
        return _correlated(phase.server, weights, moved, release.noise_multiplier, key)
    ratios = [0.0]
    for each, noise in zip(weights, noises, strict=True):
        std = noise if own == 0 else float(np.sqrt(np.square(each).sum())) * own
        if each.any() and moved > 0:
            ratios.append(release.noise_multiplier * np.abs(each).max() * moved / std if std > 0 else np.inf)
    return Finding(kind, max(ratios), sample, _counted(phase, guarantee, draws, population))


def _mixed(phase: Any, air: Any, draw: Any, number: int) -> tuple[np.ndarray, float]:
    """What every client [N] weighs in a round, all its places together, and the deviation of the channel's noise."""
    mixing = in_program(phase.channel)(air, draw, number, Statistics())
    active, ids = np.asarray(draw.active), np.asarray(draw.ids)
    places = np.where(active, np.asarray(mixing.coefficients, float), 0)
    assert type(phase.channel) is OverTheAir or (places[active] > 0).all()
    return np.bincount(ids, places, minlength=3), float(mixing.noise)


def _counted(phase: Any, guarantee: Guarantee, draws: list[Any], population: Any) -> bool:
    """Whether sampling is counted upon only as it is, and by whom it is not seen, and clients come no more often."""
    ((release, _),) = guarantee.of(0)
    came = np.zeros(population.clients, int)
    for draw in draws:
        ids = np.asarray(draw.ids)[np.asarray(draw.active)]
        np.add.at(came, ids, 1)
        subset = isinstance(release.sampling, Subset)
        if subset and {release.sampling.size, len(set(ids))} != {len(ids)}:
            return False
    if release.sampling.rate < 1:
        remembers = jax.tree.leaves(init_client(phase, jnp.zeros(FEATURES)))
        fixed = isinstance(release.sampling, Subset)
        rate = release.sampling.size / population.clients if fixed else float(phase.cohort.rate)
        hidden = guarantee.trust in ("server", "secret-sum", "secret-air") and not guarantee.per_client
        return hidden and not (fixed and remembers) and release.sampling.rate == rate
    return all(
        sum(count for _, count in guarantee.over(0, int(times) if guarantee.per_client else len(draws))) >= times
        for times in came
    )


@eqx.filter_jit
def _stream(rule: CorrelatedNoise, key: Any) -> Any:
    """The noise of a whole run [rounds, d], as the server really adds it to nothing."""
    state = rule.init(jnp.zeros(FEATURES)) | {"round": jnp.int32(0)}
    found = []
    for number in range(rule.rounds):
        state = state | rule(at(key, number), state, {"update": jnp.zeros(FEATURES)}, jnp.float32(1))
        found.append(state["model"])
    return jnp.stack(found)


def _correlated(server: CorrelatedNoise, weights: np.ndarray, moved: float, z: float, key: Any) -> Finding:
    """C·(what a client adds to the rounds) beside C·noise, which is new noise in every round."""
    length, std = server.rounds, float(server.std)
    stream = np.asarray(_stream(in_program(CorrelatedNoise(std, length, server.bands, Replace())), key), float)
    column = np.pad(np.asarray(server.strategy, float), (0, length - server.bands))
    matrix = np.array([[column[i - j] if i >= j else 0.0 for j in range(length)] for i in range(length)])
    white = matrix @ stream / std
    # New in every round: no two rounds of it are alike, by six standard errors.
    assert np.abs(np.corrcoef(white) - np.eye(length)).max(initial=0) < 6 / np.sqrt(FEATURES)
    parts = np.pad(weights, ((0, length - len(weights)), (0, 0))) * moved
    ratio = z * np.linalg.norm(matrix @ parts, axis=0).max() / std
    rms = np.sqrt(np.square(white).mean(1))
    return Finding("correlated", float(ratio), float(rms[np.abs(rms - 1).argmax()]))
