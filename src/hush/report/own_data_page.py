"""The report on each client's own data: how good the model is for everyone, and how good each personal one."""

from pathlib import Path

import numpy as np
import pandas as pd

from hush.core.columns import OF_A_CLIENT
from hush.report import formatting, markup
from hush.report.style import FONT, INK, PALETTE, Drawing, drawing, dress, write_png
from hush.store import load_table
from hush.store.files import CLIENTS, OWN_DATA_PICTURE


def own_data_section(folder: Path) -> list[str]:
    """How models fare on the clients' own data, where they were evaluated there."""
    table = load_table(folder, CLIENTS.name)
    if table is None or not (names := evaluated(table)):
        return []
    first = table[table["repetition"] == table["repetition"].min()]
    drawn = shares_of_clients(first, names)
    write_png(drawn, OWN_DATA_PICTURE.path(folder))
    said = (
        f"How many of {formatting.count(first['client'].nunique())} clients do at most so well on their own data, "
        "first repetition. Only a simulation sees this: publishing it would void any privacy guarantee."
    )
    return ["<h2>Clients' own data</h2>", markup.figure("own-data", drawn, said, said, "wide")]


def evaluated(clients: pd.DataFrame) -> list[str]:
    """What was measured on each client's own data: accuracy or, where there is none, loss."""
    measure = "accuracy" if "accuracy" in clients.columns else "loss"
    return [name for name in (measure, f"personal_{measure}") if name in clients.columns]


def shares_of_clients(clients: pd.DataFrame, names: list[str]) -> Drawing:
    """For each measure, the share of clients up to each value: lines of two models are compared at a glance."""
    figure = drawing(5.6, 3.2)
    ax = figure.subplots()
    dress(ax)
    for name, colour in zip(names, PALETTE, strict=False):
        values = clients[name].to_numpy(dtype=float)
        if np.isfinite(values).any():
            ax.ecdf(values[np.isfinite(values)], color=colour, label=OF_A_CLIENT[name])
    ax.set(xlabel=names[0], ylabel="share of clients", ylim=(0, 1.02))
    ax.legend(frameon=False, fontsize=FONT - 1, labelcolor=INK, loc="best")
    return figure
