"""Pictures of posterior samples: the chains as they went, and how each parameter is spread."""

from collections.abc import Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from hush.posterior.samples import Posterior
from hush.report.reliability import reliability_diagram
from hush.report.style import FONT, INK, PALETTE, PAPER, SOFT, Drawing, drawing, dress

__all__ = ["density", "reliability_diagram", "trace"]

Array = np.ndarray[Any, Any]
Reference = Posterior | tuple[Any, Any]

CREDIBLE = 0.9
CURVE = 200  # points of a smooth curve
EXPECTED: dict[str, Any] = {"color": PALETTE[1], "linewidth": 1.6, "linestyle": (0, (5, 1.5))}
SMOOTHED = 5000  # samples it is made from at most


def trace(posterior: Posterior, most: int = 6, parameters: Sequence[str] | None = None) -> Drawing:
    """Every chain over the rounds, and beside it how it is spread; of many parameters, those that agree least.

    Chains that sample one posterior lie on each other and go nowhere.
    """
    chosen = posterior.chosen(most, parameters)
    agreement = posterior.summary(parameters=list(chosen)) if posterior.comparable else pd.DataFrame()
    chains = posterior.values.shape[1]
    figure = drawing(7.6, 0.7 + 1.3 * len(chosen))
    rows = figure.subplots(len(chosen), 2, width_ratios=(5, 1), sharey="row", squeeze=False)
    for (ax, beside), (name, number) in zip(rows, chosen.items(), strict=True):
        dress(ax)
        dress(beside, grid="")
        for side in ("left", "bottom"):
            beside.spines[side].set_visible(False)
        beside.tick_params(left=False, labelleft=False, bottom=False, labelbottom=False)
        values = np.asarray(posterior.values[:, :, number], float)
        for chain in range(chains):
            colour = _colour(chain, chains)
            ax.plot(posterior.rounds, values[:, chain], color=colour, linewidth=0.7, alpha=0.8, gid=f"chain {chain}")
            if (smooth := _smooth(values[:, chain])) is not None:
                beside.plot(*reversed(smooth), color=colour, linewidth=1.1)
        ax.yaxis.set_major_locator(MaxNLocator(nbins=4))
        ax.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=8, steps=[1, 2, 5, 10]))
        ax.margins(x=0.01)
        ax.tick_params(labelbottom=ax is rows[-1, 0])
        beside.set_xlim(left=0)
        _title(ax, name)
        if posterior.comparable:
            found = agreement.loc[name]
            words = f"R-hat {found['r_hat']:.3f}, effective samples {found['ess_bulk']:,.0f}"
            ax.set_title(words, fontsize=FONT - 1, color=SOFT, loc="right")
    rows[-1, 0].set_xlabel("round")
    rows[-1, 1].set_xlabel(f"{chains} chain{'s' if chains > 1 else ''}")
    return figure


def density(
    posterior: Posterior,
    most: int = 6,
    reference: Reference | None = None,
    parameters: Sequence[str] | None = None,
) -> Drawing:
    """How each parameter is spread over all chains and in each of them, with its mean and 90 % credible interval.

    `reference` is what to hold it to: other samples of the same model, or a Gaussian as (mean, covariance).
    """
    if reference is not None:
        _check(posterior, reference)
    chosen = posterior.chosen(most, parameters)
    columns = min(3, len(chosen))
    rows = -(-len(chosen) // columns)
    figure = drawing(max(2.5 * columns, 5.0), 0.7 + 1.7 * rows)
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for ax, (name, number) in zip(axes, chosen.items(), strict=False):
        dress(ax, grid="")
        ax.spines["left"].set_visible(False)
        ax.tick_params(left=False, labelleft=False)
        values = np.asarray(posterior.values[:, :, number], float)
        _hill(ax, values)
        if reference is not None:
            ax.plot(*_expected(reference, number, ax.get_xlim()), **EXPECTED, gid="reference")
        _interval(ax, values)
        ax.set_ylim(bottom=0)
        ax.xaxis.set_major_locator(MaxNLocator(nbins=4))
        _title(ax, name)
    for ax in axes[len(chosen) :]:
        ax.set_axis_off()
    _key(figure, posterior.values.shape[1], reference)
    return figure


def _check(posterior: Posterior, reference: Reference) -> None:
    size = posterior.values.shape[2]
    if isinstance(reference, Posterior):
        reference.check_one_point()
    found = reference.values.shape[2] if isinstance(reference, Posterior) else len(reference[0])
    if found != size:
        raise ValueError(f"a reference must have {size} parameters, found {found}")


def _hill(ax: Axes, values: Array) -> None:
    """All chains as one filled curve, and each as a thin one."""
    whole_curve = _smooth(values.ravel())
    if whole_curve is None:
        ax.axvline(values.flat[0], color=PALETTE[0], linewidth=1.6)
        return
    ax.fill_between(*whole_curve, color=PALETTE[0], alpha=0.2, linewidth=0)
    for chain in range(values.shape[1] if values.shape[1] > 1 else 0):
        if (found := _smooth(values[:, chain])) is not None:
            ax.plot(*found, color=PALETTE[0], linewidth=0.6, alpha=0.55, gid="chain")
    ax.plot(*whole_curve, color=PALETTE[0], linewidth=1.6, gid="all chains")


def _interval(ax: Axes, values: Array) -> None:
    low, high = np.quantile(values, [(1 - CREDIBLE) / 2, (1 + CREDIBLE) / 2])
    over: dict[str, Any] = {"clip_on": False, "zorder": 4}
    ax.plot([low, high], [0, 0], color=INK, linewidth=3, solid_capstyle="butt", gid="interval", **over)
    ax.plot([values.mean()], [0], "o", color=PAPER, markeredgecolor=INK, markersize=5, gid="mean", **over)


def _expected(reference: Reference, number: int, limits: tuple[float, float]) -> tuple[Array, Array]:
    """The reference's curve; a Gaussian's as far as it reaches, or as the axes do."""
    if isinstance(reference, Posterior):
        found = _smooth(np.asarray(reference.values[:, :, number], float).ravel())
        if found is None:
            raise ValueError("a reference must be spread, found one whose samples are all equal")
        return found
    mean, spread = float(np.asarray(reference[0])[number]), float(np.sqrt(np.asarray(reference[1])[number, number]))
    places = np.linspace(min(limits[0], mean - 3 * spread), max(limits[1], mean + 3 * spread), CURVE)
    from scipy.stats import norm

    return places, norm.pdf(places, mean, spread)


def _smooth(values: Array) -> tuple[Array, Array] | None:
    """A kernel density estimate, (places, heights); nothing where all samples are equal."""
    thinned = values[:: -(-len(values) // SMOOTHED)]
    if len(thinned) < 2 or np.ptp(thinned) <= 1e-12 * np.abs(thinned).max():
        return None
    margin = 0.15 * np.ptp(thinned)
    places = np.linspace(thinned.min() - margin, thinned.max() + margin, CURVE)
    from scipy.stats import gaussian_kde  # which takes a good part of a second to load

    return places, gaussian_kde(thinned)(places)


def _key(figure: Drawing, chains: int, reference: Reference | None) -> None:
    blue = PALETTE[0]
    entries: list[tuple[Any, str]] = [(Patch(facecolor=blue, alpha=0.35), "all chains" if chains > 1 else "samples")]
    if chains > 1:
        entries.append((Line2D([], [], color=blue, linewidth=0.8), f"each of {chains} chains"))
    if reference is not None:
        entries.append((Line2D([], [], **EXPECTED), "reference"))
    bar = Line2D([], [], color=INK, linewidth=3, marker="o", markerfacecolor=PAPER, markeredgecolor=INK, markersize=5)
    entries.append((bar, f"mean and {CREDIBLE:.0%} interval"))
    figure.legend(
        *zip(*entries, strict=True), loc="outside lower center", ncols=len(entries), fontsize=FONT - 1,
        labelcolor=INK, frameon=False, handlelength=1.8, columnspacing=1.4,
    )  # fmt: skip


def _title(ax: Axes, name: str) -> None:
    ax.set_title(name, fontsize=FONT, color=INK, loc="left", parse_math=False)


def _colour(chain: int, chains: int) -> Any:
    if chains > len(PALETTE):
        return mpl.colormaps["viridis"](0.1 + 0.8 * chain / (chains - 1))
    return PALETTE[chain]
