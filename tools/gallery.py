"""The pictures of docs/gallery.md that no other page has, made by small runs: `make gallery`, a minute or two.

Each function draws one, 8 × 5 inches at 100 dots; all are the same again from the same code.
"""

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

import hush
from hush.tasks.classes import class_counts

OUT = Path(__file__).parents[1] / "docs" / "images" / "gallery"
INK, TEAL, RUST, PALE = "#22333b", "#1b666c", "#b8531f", "#dfe9ea"


def axes(title: str, across: str = "", up: str = "") -> tuple[Figure, object]:
    """One plot, plain."""
    figure = Figure(figsize=(8, 5), layout="constrained")
    ax = figure.subplots()
    ax.set_title(title, loc="left", color=INK, fontsize=14)
    ax.set_xlabel(across, color=INK, fontsize=12)
    ax.set_ylabel(up, color=INK, fontsize=12)
    ax.spines[["top", "right"]].set_visible(False)
    return figure, ax


def privacy() -> Figure:
    """ε over the rounds of DP-FedAvg, for three noises: from the accountant alone."""
    figure, ax = axes("What a client has spent", "rounds", "ε  (δ = 10⁻⁵)")
    rounds = [1, 3, 10, 30, 100, 300]
    for noise, colour in ((0.7, RUST), (1.0, TEAL), (1.5, INK)):
        algorithm = hush.dp_fedavg(80, 1920, clip=0.3, noise_multiplier=noise, steps=5)
        clients = hush.privacy.EqualClients(1920)
        spent = [hush.privacy.describe(algorithm, clients, each).most(1e-5) for each in rounds]
        ax.loglog(rounds, spent, "o-", color=colour, label=f"noise multiplier {noise:g}")
    ax.legend(frameon=False, fontsize=12)
    return figure


def sweep() -> Figure:
    """Five step sizes and three repetitions, in one program."""
    figure, ax = axes("One program, fifteen runs", "rounds", "test accuracy")
    problem = hush.tasks.digits(clients=20, classes_per_client=2)
    rates = [0.003, 0.01, 0.03, 0.1, 0.3]
    algorithm = hush.fedavg(clients=10, steps=10, lr=0.1, batch=16)
    result = hush.run(
        algorithm, problem, 60, repetitions=3, sweep={"local.lr": rates}, evaluate_every=5, progress=False
    )
    for index, rate in enumerate(rates):
        rows = result.records[np.isclose(result.records["local.lr"], rate)].groupby("round")["accuracy"]
        shade = (0.11, 0.4, 0.42, 0.3 + 0.7 * index / (len(rates) - 1))
        ax.plot(rows.mean().index, rows.mean(), color=shade, lw=2, label=f"lr {rate:g}")
        ax.fill_between(rows.mean().index, rows.min(), rows.max(), color=shade, alpha=0.2, lw=0)
    ax.legend(frameon=False, fontsize=12)
    return figure


def personal() -> Figure:
    """Each client's accuracy by the global model and by its own: Ditto."""
    figure, ax = axes("Ditto: each client, two models", "the global model's accuracy", "its own model's accuracy")
    problem = hush.tasks.digits(clients=20, classes_per_client=2)
    result = hush.run(hush.ditto(pull=0.1, steps=5, lr=0.1, batch=16), problem, 40, evaluate_every=40, progress=False)
    ax.plot([0.7, 1], [0.7, 1], color=INK, lw=1, ls="--")
    ax.scatter(result.clients["accuracy"], result.clients["personal_accuracy"], s=60, color=TEAL)
    ax.set(xlim=(0.7, 1.01), ylim=(0.7, 1.01))
    return figure


def network() -> Figure:
    """A server and its devices, and what goes between them."""
    figure, ax = axes("The same round, between machines")
    ax.set_axis_off()
    ax.set(xlim=(0, 8), ylim=(0, 5))
    box = {"boxstyle": "round,pad=0.6", "facecolor": PALE, "edgecolor": TEAL}
    ax.text(1.3, 2.5, "server\n\ndraws, adds up,\nmoves the model", ha="center", va="center", bbox=box, fontsize=13)
    for height in (4.2, 2.5, 0.8):
        ax.text(6.6, height, "device\ndata, noise, ledger", ha="center", va="center", bbox=box, fontsize=13)
        for y, start, end in ((height + 0.15, 2.6, 5.2), (height - 0.15, 5.2, 2.6)):
            here, there = (2.5 + 0.4 * (y - 2.5), y) if start < end else (y, 2.5 + 0.4 * (y - 2.5))
            style = {"arrowstyle": "-|>", "color": TEAL if start < end else RUST, "lw": 1.6}
            ax.annotate("", xy=(end, there), xytext=(start, here), arrowprops=style)
    ax.text(3.6, 4.35, "the model, over TLS", color=TEAL, fontsize=12, ha="center")
    ax.text(3.6, 0.55, "codes: the bits that are counted", color=RUST, fontsize=12, ha="center")
    return figure


def partition() -> Figure:
    """Who holds what: classes by client."""
    figure, ax = axes("Who holds what, from a run's report", "client", "digit")
    problem = hush.tasks.digits(clients=20, dirichlet=0.3)
    ax.imshow(np.asarray(class_counts(problem)).T, cmap="GnBu", aspect="auto")
    ax.set(xticks=range(0, 20, 2), yticks=range(10))
    return figure


PICTURES = {"privacy": privacy, "sweep": sweep, "personal": personal, "network": network, "partition": partition}


def main() -> None:
    OUT.mkdir(parents=True, exist_ok=True)
    for name, draw in PICTURES.items():
        draw().savefig(OUT / f"{name}.png", dpi=100, metadata={"Software": None})


if __name__ == "__main__":
    main()
