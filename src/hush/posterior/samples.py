"""Samples of a model's parameters: what they are named, whether the chains agree, and what they say.

R-hat, effective sample sizes and netCDF files are ArviZ's. A chain is one lane of a run: a repetition, or a repetition
at a point of a sweep. Different points have different posteriors, so nothing here mixes them.
"""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pandas as pd

from hush.core.check import integer, nearest
from hush.core.problem import Problem
from hush.posterior import wasserstein
from hush.posterior.quiet import arviz, converted
from hush.version import __version__

Array = np.ndarray[Any, Any]

FEWEST_CHAINS, FEWEST_DRAWS = 2, 4  # below these R-hat is not defined
COLUMNS_AT_ONCE = 2000  # parameters whose samples are held in memory together


@dataclass(frozen=True, eq=False)
class Posterior:
    """Samples of the parameters of a problem's model, taken from several chains."""

    values: Array  # [draws, chains, d], in memory or on disk
    problem: Problem = field(repr=False)
    rounds: Array  # [draws], after which round each was taken
    lanes: list[dict[str, Any]]  # for each chain its repetition and its swept settings
    settings: dict[str, Any] | None = None  # of the run that drew them

    def __post_init__(self) -> None:
        if self.values.ndim != 3 or 0 in self.values.shape:
            raise ValueError(f"samples must have the shape [draws, chains, d], found {self.values.shape}")
        draws, chains, dimension = self.values.shape
        if len(self.rounds) != draws or len(self.lanes) != chains:
            raise ValueError(
                f"{draws} draws of {chains} chains need as many rounds and lanes, "
                f"found {len(self.rounds)} and {len(self.lanes)}"
            )
        wanted = sum(math.prod(shape) for shape in self._shapes().values())
        if dimension != wanted:
            raise ValueError(f"the problem's model has {wanted} parameters, found samples of {dimension}")

    def parameters(self) -> dict[str, Array]:
        """The samples [chains, draws, *shape] of each array of the model, by its name; of a bare one, `theta`."""
        shapes = self._shapes()
        ends = np.cumsum([math.prod(shape) for shape in shapes.values()])
        parts = np.split(self.values, ends[:-1], axis=2)
        return {
            name: part.swapaxes(0, 1).reshape(part.shape[1], part.shape[0], *shape)
            for (name, shape), part in zip(shapes.items(), parts, strict=True)
        }

    def names(self) -> list[str]:
        """A name for each of the d numbers, such as `layers.1.weight[3, 5]`."""
        return [
            f"{name}{list(place)}" if shape else name
            for name, shape in self._shapes().items()
            for place in np.ndindex(shape)
        ]

    def points(self) -> list[dict[str, Any]]:
        """The points of the sweep; one without settings where nothing was swept."""
        found: list[dict[str, Any]] = []
        for lane in self.lanes:
            if (point := _point(lane)) not in found:
                found.append(point)
        return found

    def where(self, settings: Mapping[str, Any]) -> "Posterior":
        """The chains at these settings: `where({"local.lr": 0.1})`."""
        names = {name for lane in self.lanes for name in lane}
        for name in settings:
            if name not in names:
                raise ValueError(f"no chain has a setting {name!r}; {nearest(name, names)}")
        fits = [all(_same(lane.get(name), value) for name, value in settings.items()) for lane in self.lanes]
        chosen = [number for number, fit in enumerate(fits) if fit]
        if not chosen:
            raise ValueError(f"no chain is at {_words(settings)}; there are {self._listed()}")
        # neighbours as a slice: what is on disk then stays there
        together = chosen == list(range(chosen[0], chosen[-1] + 1))
        part = self.values[:, chosen[0] : chosen[-1] + 1] if together else self.values[:, chosen]
        return replace(self, values=part, lanes=[self.lanes[number] for number in chosen])

    def check_one_point(self) -> None:
        """Refuse chains of several points of a sweep."""
        points = self.points()
        if len(points) > 1:
            raise ValueError(
                f"these chains are of {len(points)} points of a sweep, whose posteriors differ: {self._listed()}. "
                f"Choose one, such as where({points[0]})"
            )

    def to_arviz(self) -> Any:
        """The chains as an `arviz.InferenceData`; the rounds stand in `sample_stats`."""
        self.check_one_point()
        rounds = np.broadcast_to(np.asarray(self.rounds), (len(self.lanes), len(self.rounds)))
        about = {"inference_library": "hush", "inference_library_version": __version__}
        about["rounds"] = f"{len(self.rounds)} draws, from round {self.rounds[0]} to {self.rounds[-1]}"
        about["chains"] = json.dumps(self.lanes, default=str)
        if self.settings is not None:
            about["settings"] = json.dumps(self.settings, default=str)
        return converted("from_dict", self.parameters(), sample_stats={"round": rounds}, attrs=about)

    def to_netcdf(self, path: str | Path) -> Path:
        """Write the chains to a netCDF file, which `arviz.from_netcdf` reads."""
        self.to_arviz().to_netcdf(str(path))
        return Path(path)

    def chosen(self, most: int, parameters: Sequence[str] | None = None) -> dict[str, int]:
        """Some parameters and where they stand: those named, or so many whose chains agree least."""
        integer("most", most)
        self.check_one_point()
        self._finite()
        names = self.names()
        if parameters is not None:
            places = {name: number for number, name in enumerate(names)}
            for name in parameters:
                if name not in places:
                    arrays = ", ".join(f"{array} {list(shape)}" for array, shape in self._shapes().items())
                    raise ValueError(f"unknown parameter {name!r}; there are {names[0]} to {names[-1]}, from {arrays}")
            return {name: places[name] for name in parameters}
        numbers = np.arange(len(names))
        if len(names) > most and self.comparable:
            # one that never moves has no R-hat, and comes last
            numbers = np.argsort(-np.nan_to_num(self._each("rhat"), nan=-np.inf), kind="stable")
        return {names[number]: int(number) for number in numbers[:most]}

    def summary(self, most: int = 200, parameters: Sequence[str] | None = None) -> pd.DataFrame:
        """ArviZ's table of means, intervals, Monte Carlo errors and R-hat, of those `chosen`."""
        self._comparable()
        chosen = self.chosen(most, parameters)
        with np.errstate(invalid="ignore", divide="ignore"):  # one that never moves has no R-hat
            table = arviz().summary(_dataset(self.values[:, :, list(chosen.values())]), round_to="none")
        return table.set_axis(list(chosen))

    def worst(self) -> dict[str, float]:
        """The largest R-hat and the smallest effective sample sizes of all parameters.

        `constant` counts those that never move, such as the weights of a pixel that is always black; they are left out.
        """
        self._comparable()
        moving = np.concatenate([np.ptp(part, axis=(0, 1)) > 0 for _, part in self._columns()])
        if not moving.any():
            raise ValueError(f"none of the {len(moving)} parameters moves in any chain: these are no samples")
        return {
            # chains that stand still at different places give no number: they could not disagree more
            "r_hat": float(np.nan_to_num(self._each("rhat")[moving], nan=np.inf).max()),
            "ess_bulk": float(self._each("ess", method="bulk")[moving].min()),
            "ess_tail": float(self._each("ess", method="tail")[moving].min()),
            "constant": int((~moving).sum()),
        }

    def intervals(self, probability: float = 0.9) -> pd.DataFrame:
        """Mean, standard deviation and equal-tailed credible interval of each parameter, over all chains."""
        if not 0 < probability < 1:
            raise ValueError(f"probability must be between 0 and 1, found {probability!r}")
        self.check_one_point()
        self._finite()
        tails = [(1 - probability) / 2, (1 + probability) / 2]
        found = []
        for _, part in self._columns():
            pooled = part.reshape(-1, part.shape[2]).astype(float)
            spread = pooled.std(0, ddof=1) if len(pooled) > 1 else np.full(pooled.shape[1], np.nan)
            found.append(np.stack([pooled.mean(0), spread, *np.quantile(pooled, tails, axis=0)], axis=1))
        return pd.DataFrame(np.concatenate(found), index=self.names(), columns=["mean", "sd", "low", "high"])

    def wasserstein(self, mean: Any, covariance: Any) -> float:
        """W2 from the Gaussian with the samples' mean and covariance, over all chains, to N(mean, covariance)."""
        self.check_one_point()
        return wasserstein.to_gaussian(self.values.reshape(-1, self.values.shape[2]), mean, covariance)

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        """The arrays of the model, in the order in which they stand in a flat vector."""
        leaves = jax.tree_util.tree_flatten_with_path(jax.eval_shape(self.problem.init, jax.random.key(0)))[0]
        # a netCDF variable's name may not hold a slash
        names = [jax.tree_util.keystr(path, simple=True, separator=".").replace("/", ".") for path, _ in leaves]
        if len(set(names)) < len(names):
            names = [f"{number}.{name}" for number, name in enumerate(names)]
        return {name or "theta": leaf.shape for name, (_, leaf) in zip(names, leaves, strict=True)}

    def _columns(self) -> Iterator[tuple[int, Array]]:
        for start in range(0, self.values.shape[2], COLUMNS_AT_ONCE):
            yield start, np.asarray(self.values[:, :, start : start + COLUMNS_AT_ONCE])

    def _each(self, diagnostic: str, **options: Any) -> Array:
        """One of ArviZ's diagnostics for each parameter, [d]."""
        compute = getattr(arviz(), diagnostic)
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.concatenate([compute(_dataset(part), **options)["x"].to_numpy() for _, part in self._columns()])

    def _listed(self) -> str:
        return "; ".join(_words(point) for point in self.points())

    @property
    def comparable(self) -> bool:
        """Whether there are chains and draws enough for R-hat."""
        draws, chains, _ = self.values.shape
        return chains >= FEWEST_CHAINS and draws >= FEWEST_DRAWS

    def _comparable(self) -> None:
        """Refuse samples for which R-hat is not defined, in words: ArviZ would answer with NaN."""
        self.check_one_point()
        draws, chains, _ = self.values.shape
        if not self.comparable:
            raise ValueError(
                f"R-hat compares {FEWEST_CHAINS} or more chains of {FEWEST_DRAWS} or more draws, found {chains} "
                f"of {draws}; a chain is a repetition, a draw a round that kept samples. intervals() takes any"
            )
        self._finite()

    def _finite(self) -> None:
        for start, part in self._columns():
            if not np.isfinite(part).all():
                chain = int(np.argmax(~np.isfinite(part).all(axis=(0, 2))))
                name = self.names()[start + int(np.argmax(~np.isfinite(part[:, chain]).all(0)))]
                raise ValueError(f"samples must be finite, found some that are not: the first in chain {chain}, {name}")


def _dataset(values: Array) -> Any:
    return converted("convert_to_dataset", {"x": np.asarray(values).swapaxes(0, 1)})


def _point(lane: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in lane.items() if name != "repetition"}


def _same(a: Any, b: Any) -> bool:
    """Equal, up to a setting having been a float32 once."""
    numbers = isinstance(a, int | float) and isinstance(b, int | float)
    return math.isclose(a, b, rel_tol=1e-6) if numbers else bool(a == b)


def _words(point: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} = {_short(value)}" for name, value in point.items())


def _short(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
