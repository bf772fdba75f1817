"""The report on privacy: the guarantee with its assumptions, what each client spent, and their updates."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from hush.core.columns import OF_A_CLIENT
from hush.privacy.shown import rounded_up
from hush.report import formatting, markup
from hush.report.style import FONT, INK, PALETTE, Drawing, drawing, dress, write_png
from hush.store import load_settings, load_table
from hush.store.files import CLIENTS, CLIENTS_PICTURE, UPDATES, UPDATES_PICTURE
from hush.theory.clipping import clip_factor, clipping_bias

# Rounds shown of a watched run, in shares of the way: the first clients have no global update to be compared with.
SHOWN = (0.05, 0.35, 0.65, 1.0)
DOTS = 2000  # a round of more clients is thinned


def privacy_section(folder: Path, status: dict[str, Any]) -> list[str]:
    """What is promised, or why nothing is."""
    found = status.get("privacy")
    if not isinstance(found, dict):
        return []
    if found["guarantee"] == "none":
        said = f"No privacy guarantee: {found['reason']}."
        return ["<h2>Privacy</h2>", f'<p id="no-privacy">{markup.text(said)}</p>']
    body = ["<h2>Privacy<small>a figure means nothing without what stands below it</small></h2>"]
    rows = [*figures(found), *found["guarantee"].items(), ("the noise", found["noise"])]
    body.append(markup.table("privacy", ("", ""), [(name, str(value)) for name, value in rows], 2))
    table = load_table(folder, CLIENTS.name)
    if table is not None:
        first = table[table["repetition"] == table["repetition"].min()]
        drawn = spent_by_each(first)
        write_png(drawn, CLIENTS_PICTURE.path(folder))
        said = f"What each of {formatting.count(first['client'].nunique())} clients has spent, first repetition."
        body.append(markup.figure("clients", drawn, said, said, "wide"))
    return body


def figures(found: dict[str, Any]) -> list[tuple[str, str]]:
    """ε by every accountant, and what the paper would have said."""
    lanes = found.get("lanes", 1)
    of_one = "ε, worst client" if lanes == 1 else "ε of one lane, worst client"
    said = [(of_one, f"{rounded_up(found['epsilon'])} after {found['rounds']} rounds")]
    if lanes > 1:
        said += [(f"ε of all {lanes} lanes together", f"{rounded_up(found['together'])}: {found['composed']}")]
    said += [("ε, median client", rounded_up(found["median"]))]
    said += [("ε by Rényi divergences", rounded_up(found["rdp"]))]
    none = "not known for this kind of noise, or at so small a δ"
    said += [("ε by privacy loss distributions", none if found["pld"] is None else rounded_up(found["pld"]))]
    if "printed per round" in found:
        printed = rounded_up(found["printed per round"])
        said += [
            ("as paper fedpaq-dp prints it", f"{printed} for one round, by a formula that does not hold; see the docs")
        ]
    return said


def spent_by_each(clients: pd.DataFrame) -> Drawing:
    """Histograms over clients: ε where each has its own, rounds, and bits."""
    columns = [name for name in ("epsilon", "rounds", "uplink_bits") if name in clients.columns]
    figure = drawing(2.9 * len(columns), 2.6)
    for ax, name in zip(np.atleast_1d(figure.subplots(1, len(columns))), columns, strict=True):
        dress(ax)
        unit = formatting.unit(name, float(clients[name].max()))
        values = clients[name].to_numpy(dtype=float) / unit.size
        ax.hist(values[np.isfinite(values)], bins=min(20, max(1, len(np.unique(values)))), color=PALETTE[0])
        said = OF_A_CLIENT[name]
        ax.set_xlabel(f"{said} ({unit.name})" if unit.name else said)
        ax.set_ylabel("clients")
    return figure


def updates_section(folder: Path) -> list[str]:
    """The scatter plots of paper clipping (Figures 1, 2, 5 to 11), where the run was watched."""
    updates = load_table(folder, UPDATES.name)
    if updates is None:
        return []
    drawn = scatter(updates)
    write_png(drawn, UPDATES_PICTURE.path(folder))
    said = (
        "Every dot is one client's update in one round: its length, and its angle to the last global update; the large "
        "dot is their mean. Such a picture can be made in a simulation only: it shows what privacy is to hide."
    )
    body = ["<h2>Updates of the clients</h2>", markup.figure("updates", drawn, said, said, "wide")]
    bounds = [stage["bound"] for stage in load_settings(folder).get("uplink", []) if stage.get("piece") == "clip"]
    return body if not bounds else [*body, _clipping(updates, float(bounds[0]))]


def _clipping(updates: pd.DataFrame, bound: float) -> str:
    """What clipping did, in the terms of paper clipping's Theorem 3.1, over four parts of the run."""
    updates = updates[np.isfinite(updates["local_norm"])]  # a run may have ended in numbers that are not
    rows = []
    for part in np.array_split(np.unique(updates["round"]), 4):
        these = updates[updates["round"].isin(part)]
        if len(these) == 0:
            continue
        each = [clipping_bias(norms.to_numpy()[None], bound) for _, norms in these.groupby("round")["local_norm"]]
        factors = clip_factor(these["local_norm"], bound)
        shares = f"{100 * (factors < 1).mean():.1f} %"
        means = f"{factors.mean():.3f}", f"{np.mean([one.across for one in each]):.4f}"
        rows.append((f"{part[0]} to {part[-1]}", f"{these['local_norm'].mean():.3g}", shares, *means))
    heads = ("rounds", "mean length", f"longer than {bound:g}", "mean α", "mean |α_i − ᾱ|")
    return markup.table("clipping", heads, rows)


def scatter(updates: pd.DataFrame, rounds: tuple[int, ...] | None = None, size: float = 2.6) -> Drawing:
    """Length against angle of the clients' updates in a few rounds of the first repetition."""
    first = updates[updates["repetition"] == updates["repetition"].min()]
    numbers = np.unique(first["round"])
    chosen = rounds or tuple(dict.fromkeys(int(numbers[round(share * (len(numbers) - 1))]) for share in SHOWN))
    figure = drawing(size * len(chosen), size + 0.2)
    axes = np.atleast_1d(figure.subplots(1, len(chosen), sharey=True))
    for ax, chosen_round in zip(axes, chosen, strict=True):
        dots(ax, first[first["round"] == chosen_round], f"round {chosen_round}")
        ax.set_xlim(left=0)
    axes[0].set_ylabel("angle to the last update (°)")
    return figure


def dots(ax: Axes, updates: pd.DataFrame, title: str, colour: str = PALETTE[0]) -> None:
    """The clients of one round in one picture."""
    dress(ax)
    updates = updates[np.isfinite(updates["local_norm"])]
    shown = updates.iloc[:: max(1, len(updates) // DOTS)]
    angles = np.degrees(np.arccos(np.clip(shown["cosine"], -1, 1)))
    ax.scatter(shown["local_norm"], angles, s=9, alpha=0.6, color=colour, linewidths=0)
    ax.scatter([shown["local_norm"].mean()], [angles.mean()], s=42, color=INK, zorder=3)
    ax.set_title(title, fontsize=FONT, color=INK)
    ax.set_xlabel("length")
