"""The settings of paper fa-ld's simulations: chains of FA-LD on Gaussian targets, beside the exact law of every round.

N = 50 clients of n_c = 1000 points each, Σ = [[5, −2], [−2, 1]], τ = 1 and 300 chains, as in section 7.1 (n_c is not
given there; 1000 makes the printed values of γ², which it calls γ, come out). W2 is that of the Gaussians with the
chains' mean and covariance, which 300 perfect samples would show at about 7e-4.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from hush import tasks
from hush.algorithms import fa_ld
from hush.papers.drawing import beside
from hush.papers.keeping import Runs
from hush.posterior import wasserstein
from hush.report.style import PALETTE, Drawing, drawing, dress
from hush.tasks.potentials import Gaussian
from hush.theory import langevin_gaussian
from hush.theory.langevin import unbiased_scale

Array = np.ndarray[Any, Any]
SWEPT = {"lr": "local.lr", "correlation": "local.direction.0.correlation"}
SYMBOLS = {"lr": "η", "correlation": "ρ"}


@dataclass(frozen=True)
class Setting:
    """One way to run the chains."""

    steps: int = 100  # K
    lr: float = 1e-7
    correlation: float = 0.0
    scheme: str = "all"
    per_round: int | None = None
    unbiased: bool = False
    heterogeneity: float = 0.0  # α
    shapes: float = 0.0  # how much the clients' covariances differ
    alike: bool = False  # whether all clients have one and the same potential

    @property
    def who(self) -> str:
        """Who takes part, in words."""
        return "all clients" if self.per_round is None else f"scheme {self.scheme}, S = {self.per_round}"


class Walk(NamedTuple):
    """Where the chains were after some rounds."""

    rounds: Array  # [evaluations]
    models: Array  # [evaluations, chains, d]


@dataclass
class LangevinLab:
    """300 chains in two dimensions, MNIST and Fashion-MNIST; or, quick, 60 chains and the embedded digits."""

    quick: bool = False
    runs: Runs = field(default_factory=Runs)
    _targets: dict[tuple[float, float, bool], Gaussian] = field(default_factory=dict)
    kept: dict[Any, Any] = field(default_factory=dict)  # what other experiments have made

    @property
    def chains(self) -> int:
        return 60 if self.quick else 300

    @property
    def words(self) -> str:
        """What the numbers were made with."""
        images = "scikit-learn's digits: a trial of the code" if self.quick else "MNIST and Fashion-MNIST"
        return f"Gaussian targets with N = 50, n_c = 1000, {self.chains} chains; {images}"

    def target(self, setting: Setting) -> Gaussian:
        """The problem of a setting."""
        name = (setting.heterogeneity, setting.shapes, setting.alike)
        if name not in self._targets:
            made = tasks.gaussian_posterior(heterogeneity=setting.heterogeneity, shapes=setting.shapes)
            if setting.alike:
                made = tasks.gaussian_potentials(np.zeros((50, 2)), made.data["precision"], made.population.sizes)
            self._targets[name] = made
        return self._targets[name]

    def walk(self, setting: Setting, iterations: int, looks: int) -> Walk:
        """The chains, looked at so often over so many steps."""
        return self.walks(setting, iterations, looks, "lr", (setting.lr,))[setting.lr]

    def walks(
        self, setting: Setting, iterations: int, looks: int, name: str, values: tuple[float, ...]
    ) -> dict[float, Walk]:
        """The same for several values of η or ρ, side by side in one program."""
        rounds = -(-iterations // setting.steps)
        algorithm = fa_ld(
            setting.steps,
            setting.lr,
            1.0,
            setting.correlation,
            scheme=setting.scheme,
            per_round=setting.per_round,
            unbiased=setting.unbiased,
        )
        swept = f"{SYMBOLS[name]} = {', '.join(f'{value:g}' for value in values)}"
        result = self.runs(
            f"{setting.who}, K = {setting.steps}, α = {setting.heterogeneity:g}, {swept}; {rounds} rounds",
            algorithm,
            self.target(setting),
            rounds,
            repetitions=self.chains,
            evaluate_every=max(1, rounds // looks),
            sweep={SWEPT[name]: values},
            keep_models=True,
        )
        at = result.records["round"].unique()
        assert result.history is not None
        parts = result.history.reshape(len(at), len(values), self.chains, -1).swapaxes(0, 1)
        return {value: Walk(at, part) for value, part in zip(values, parts, strict=True)}

    def exact_target(self, setting: Setting) -> langevin_gaussian.Target:
        """The same target as the recursion takes it: H_c = A_c/p_c."""
        data, clients = self.target(setting).data, self.target(setting).population.clients
        means, precisions = (np.asarray(data[name], float) for name in ("mean", "precision"))
        return langevin_gaussian.Target(means, clients * precisions, np.full(clients, 1 / clients))

    def law(self, setting: Setting) -> dict[str, Any]:
        """The rest of what the recursion takes."""
        shares = np.full(50, 1 / 50)
        scale = unbiased_scale(shares, setting.per_round, setting.scheme) if setting.unbiased else None
        return {
            "correlation": setting.correlation,
            "scheme": setting.scheme,
            "per_round": setting.per_round,
            "own_scale": scale,
        }

    def distances(self, setting: Setting, walk: Walk) -> pd.DataFrame:
        """W2 to the target after each look: of the chains, and of their exact law."""
        problem = self.target(setting)
        exact = langevin_gaussian.moments(
            self.exact_target(setting), int(walk.rounds[-1]), setting.steps, setting.lr, **self.law(setting)
        )
        rows = [
            {
                "round": int(number),
                "simulated": wasserstein.to_gaussian(models, problem.mean, problem.covariance),
                "exact": wasserstein.between_gaussians(
                    exact.mean[number], exact.covariance[number], problem.mean, problem.covariance
                ),
            }
            for number, models in zip(walk.rounds, walk.models, strict=True)
        ]
        return pd.DataFrame(rows)

    def settled(self, setting: Setting) -> float:
        """W2 between the target and the law that the chains settle at, exactly."""
        problem = self.target(setting)
        law = langevin_gaussian.stationary(self.exact_target(setting), setting.steps, setting.lr, **self.law(setting))
        return wasserstein.between_gaussians(law.mean, law.covariance, problem.mean, problem.covariance)

    @property
    def floor(self) -> float:
        """What as many perfect samples would show."""
        return wasserstein.floor(self.target(Setting()).covariance, self.chains)


def first_within(table: pd.DataFrame, column: str, accuracy: float) -> float:
    """The first round looked at whose W2 is within the accuracy; infinity if none is."""
    inside = table["round"][table[column] <= accuracy]
    return float(inside.iloc[0]) if len(inside) else float("inf")


def curves(tables: Mapping[str, pd.DataFrame], floor: float | None = None) -> Drawing:
    """W2 of the chains against rounds, and the exact law as thin dashes."""
    figure = drawing(6.4, 4.0)
    ax = figure.subplots()
    dress(ax)
    for number, (name, table) in enumerate(tables.items()):
        colour = PALETTE[number % len(PALETTE)]
        ax.plot(table["round"], table["simulated"], color=colour, linewidth=1.8, label=name)
        ax.plot(table["round"], table["exact"], color=colour, linewidth=0.9, linestyle=(0, (4, 2)))
    if floor is not None:
        ax.axhline(floor, color="#999999", linewidth=0.9, linestyle=(0, (1, 2)), label="perfect samples")
    ax.set(xlabel="communication rounds", ylabel="W2 to the posterior", yscale="log")
    beside(ax)
    return figure
