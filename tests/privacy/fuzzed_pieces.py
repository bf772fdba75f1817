"""Random pieces for every slot, with settings over all that they may be.

Numbers range widely; shapes (sizes of batches, steps, levels, features) take few values, since every new shape is a new
program to compile. A new piece is one line in the function of its slot.
"""

from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from hush import schedules
from hush.channel import (
    Alignment,
    BestBound,
    Constant,
    FullPower,
    Given,
    Groups,
    Largest,
    LeastSquares,
    OverTheAir,
    PerClient,
    Rayleigh,
    Total,
    TruncatedInversion,
)
from hush.cohort import ByWeight, Cyclic, Everyone, Poisson, SchemeII, Uniform
from hush.core.contract import LocalRule
from hush.core.grid import Grid
from hush.local import (
    ClippedPerExample,
    ClippedToBroadcast,
    ControlVariate,
    Fresh,
    Full,
    Gradient,
    GradientCorrection,
    Langevin,
    LocalSGD,
    MeanGradient,
    Perturbed,
    Proximal,
    Replacement,
    Scaffold,
    Shuffled,
    Subset,
    WeightDecay,
)
from hush.uplink import (
    QSGD,
    BFloat16,
    Clip,
    ErrorFeedback,
    Gaussian,
    GridGaussian,
    RandomK,
    Rotated,
    Sign,
    TernGrad,
    TopK,
)

FEATURES = 512
# Sizes of clients, and the model: a linear one is clipped example by example, a network by its layers.
FORMS = (("linear", (6, 6, 6)), ("network", (6, 6, 6)), ("network", (2, 5, 8)))


class Says(LocalRule):
    """Sends what the broadcast holds under the names it sends: any message at all."""

    sends: tuple[str, ...] = eqx.field(static=True, default=("update",))
    needs: ClassVar[tuple[str, ...]] = ("model",)

    def __call__(self, key, broadcast, state, data):
        return dict.fromkeys(self.sends, broadcast["model"]), state, {"steps": jnp.int32(1)}


class Dice:
    """A generator of settings."""

    def __init__(self, number: int) -> None:
        self.rng = np.random.default_rng([20_240, number])

    def chance(self, probability: float) -> bool:
        return bool(self.rng.random() < probability)

    def one(self, *things: Any) -> Any:
        return things[self.rng.integers(len(things))]

    def whole(self, low: int, high: int) -> int:
        return int(self.rng.integers(low, high + 1))

    def log(self, low: float, high: float) -> float:
        return float(10 ** self.rng.uniform(np.log10(low), np.log10(high)))

    def size(self, low: float = 1e-18, high: float = 1e18) -> Any:
        """A positive setting, at times a number of NumPy's or JAX's, often an ordinary one."""
        value = self.log(low, high) if self.chance(0.6) else self.log(max(low, 0.01), min(high, 100.0))
        return self.one(float, float, float, np.float64, np.float32, jnp.float32)(value)

    def rate(self) -> Any:
        """A step size: a number or a schedule, falling or rising."""
        value = float(self.size(1e-15, 1e6))
        rising = schedules.Optax(
            "linear_schedule", {"init_value": value, "end_value": 7 * value, "transition_steps": 9}
        )
        return self.one(value, value, schedules.InverseTime(value, self.log(0.1, 10)), rising)

    def multiplier(self) -> float:
        """Noise over what it hides, roughly."""
        return self.log(1e-3, 1e3)


def cohort(dice: Dice, clients: int) -> Any:
    size, weighting = dice.whole(1, clients), dice.one("equal", "equal", "examples")
    kinds = {
        "everyone": lambda: Everyone(weighting),
        "uniform": lambda: Uniform(size, weighting),
        "cyclic": lambda: Cyclic(size, weighting),
        "poisson": lambda: Poisson(dice.one(1.0, dice.log(0.01, 1)), weighting),
        "scheme": lambda: SchemeII(size),
        "weight": lambda: ByWeight(size),
    }
    names = ("everyone", "uniform", "uniform", "cyclic", "poisson", "poisson", "scheme", "weight")
    return kinds[dice.one(*names)]()


def batches(dice: Dice) -> Any:
    kinds = (Full, lambda: Fresh(2), lambda: Subset(dice.one(1, 2)), lambda: Shuffled(4), lambda: Replacement(2))
    return dice.one(*kinds[:4], *kinds)()


def compressor(dice: Dice) -> Any:
    plain = dice.one(
        lambda: QSGD(dice.one(1, 255), dice.one(None, 64)),
        TernGrad,
        Sign,
        BFloat16,
        lambda: TopK(dice.one(1, 500)),
        lambda: RandomK(dice.one(1, 500)),
    )()
    return dice.one(plain, plain, Rotated(plain), ErrorFeedback(plain))


def uplink(dice: Dice, bound: Any, noisy: bool) -> tuple[Any, ...]:
    """Mostly something, a clip, noise, something; now and then in any order."""
    before = [compressor(dice) for _ in range(dice.one(0, 0, 1))] + [
        Clip(dice.size()) for _ in range(dice.one(0, 0, 1))
    ]
    noise = [Gaussian(float(bound) * dice.multiplier()) for _ in range(dice.one(1, 1, 2) if noisy else 0)]
    after = [compressor(dice) for _ in range(dice.one(0, 0, 1) if noisy else dice.one(0, 0, 0, 0, 1))]
    kept = [Clip(bound), *noise]
    if noisy and dice.chance(0.2):
        kept = [GridGaussian(bound, float(bound) * dice.multiplier(), Grid(dice.one(10, 20)))]
    stages = [*before, *kept, *after]
    return tuple(dice.rng.permutation(np.array(stages, object))) if dice.chance(0.1) else tuple(stages)


def fading(dice: Dice, clients: int) -> Any:
    gain = lambda: dice.one(1, 1, -1) * dice.size(1e-9, 1e9)  # noqa: E731
    own = PerClient(Constant(jnp.asarray([float(gain()) for _ in range(clients)])))
    groups = Groups(Constant(gain()), Constant(gain()), dice.whole(0, clients))
    return dice.one(Constant(gain()), Constant(gain()), own, groups, Rayleigh() if dice.chance(0.2) else own)


def over_the_air(dice: Dice, clients: int, bound: Any) -> Any:
    divisor = dice.one(Total(), Largest(2), Given(dice.size(1e-6, 1e6)), BestBound(dice.log(1e-3, 1e3)))
    rule = dice.one(Alignment(), FullPower(divisor), TruncatedInversion(dice.log(1e-6, 1e6)), FullPower(divisor))
    power = dice.one(dice.rng.uniform(-60, 60), tuple(float(dice.rng.uniform(-60, 60)) for _ in range(clients)))
    rule = LeastSquares() if dice.chance(0.05) else rule
    return OverTheAir(rule, fading(dice, clients), power, dice.size(1e-6, 1e6), bound)


def directions(dice: Dice) -> tuple[Any, ...]:
    decay, pull = WeightDecay(dice.one(0.0, dice.log(1e-6, 1e3))), Proximal(dice.log(1e-6, 1e3))
    return dice.one((), (), (decay,), (pull,), (decay, pull), (GradientCorrection(),) if dice.chance(0.2) else ())


def oracle(dice: Dice, noise: float) -> Any:
    grid = Grid(dice.one(10, 20)) if noise > 0 and dice.chance(0.15) else None
    clipped = ClippedPerExample(dice.size(), noise, None if grid else dice.one(None, None, 2), grid)
    return MeanGradient() if dice.chance(0.05) else clipped


def langevin(dice: Dice) -> Langevin:
    correlation = dice.one(0.0, float(dice.rng.uniform(0, 1)), 1 - dice.log(1e-8, 0.1))
    return Langevin(dice.size(), correlation, dice.one(0.0, dice.size()), dice.one(None, None, SchemeII(2), Everyone()))


def training(dice: Dice, noise: float, turns: tuple[Any, ...]) -> LocalSGD:
    length = {"steps": dice.one(1, 3)} if dice.chance(0.7) else {"epochs": dice.one(1, 2)}
    pace = dice.one("round", "step") if "steps" in length else "round"
    send = dice.one("update", "update", "model")
    return LocalSGD(dice.rate(), **length, batches=batches(dice), direction=turns, oracle=oracle(dice, noise),
                    send=send, pace=pace)  # fmt: skip


def private_training(dice: Dice) -> Any:
    """A local rule that is private by itself, or nearly one."""
    noise = dice.one(0.0, dice.multiplier())
    kind = dice.one("gradient", "steps", "steps", "langevin", "langevin", "scaffold", "output", "output", "adaptive")
    if kind == "gradient":
        return Gradient(batches(dice), oracle(dice, dice.multiplier()))
    if kind == "steps":
        return training(dice, dice.multiplier(), directions(dice))
    if kind == "langevin":
        turns = tuple(dice.rng.permutation(np.array([langevin(dice), *directions(dice)], object)))
        return training(dice, noise, turns)
    if kind == "adaptive":
        return ClippedToBroadcast(dice.one(perturbed(dice), training(dice, dice.multiplier(), ())))
    if kind == "output":
        return perturbed(dice)
    turns, noisy = (*directions(dice), ControlVariate()), oracle(dice, dice.multiplier())
    return Scaffold(LocalSGD(dice.rate(), steps=dice.one(1, 3), batches=batches(dice), direction=turns, oracle=noisy))


def perturbed(dice: Dice) -> Perturbed:
    steps, clipped = dice.one(1, 3), ClippedPerExample(dice.size())
    send, turns = "model" if dice.chance(0.1) else "update", directions(dice)
    inner = LocalSGD(dice.rate(), steps=steps, batches=batches(dice), direction=turns, oracle=clipped, send=send)
    return Perturbed(inner, dice.multiplier(), Grid() if dice.chance(0.1) else None)
