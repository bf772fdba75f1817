"""The command `hush plan`: its options, what a plan's file may hold, and how the answer is told."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from hush.cores import compile_quickly
from hush.extras import require

TASK = r"A file with \[task] and \[proxy]; it may also hold \[channel], and budgets in \[plan]."


def plan(
    settings: Annotated[Path, typer.Argument(metavar="TASK.toml", help=TASK)],
    bits_per_client: Annotated[float | None, typer.Option(help="Uplink bits that any one client may send.")] = None,
    bits: Annotated[float | None, typer.Option(help="Uplink bits of all clients together.")] = None,
    epsilon: Annotated[float | None, typer.Option(help="ε, what an observer may learn of one unit.")] = None,
    delta: Annotated[float | None, typer.Option(help="δ, the probability that ε may fail; 1e-5 if not given.")] = None,
    unit: Annotated[str | None, typer.Option(help="What is protected: client or example; client if not given.")] = None,
    trust: Annotated[str | None, typer.Option(help="Who is trusted: server, sum, local, air …")] = None,
    seconds: Annotated[float | None, typer.Option(help="Time on the uplink, which all share; with --capacity.")] = None,
    capacity: Annotated[float | None, typer.Option(help="Of the uplink, in bits a second.")] = None,
    energy: Annotated[float | None, typer.Option(help="What all clients may put on the air together.")] = None,
    steps_per_client: Annotated[int | None, typer.Option(help="Local steps that any one client may make.")] = None,
    rounds: Annotated[int | None, typer.Option(help="No more rounds than these.")] = None,
    algorithms: Annotated[str | None, typer.Option(metavar="NAMES", help="Only these, with commas between.")] = None,
    proxy: Annotated[
        str | None, typer.Option(metavar="NAME", help="Another task, synthetic, or set-aside: \\[proxy] in one word.")
    ] = None,
    private_data: Annotated[
        bool,
        typer.Option("--private-data", help="Tune on the private data itself, and count what that costs in ε."),
    ] = False,
    minutes: Annotated[float | None, typer.Option(help="How long to search; 3 if not given.")] = None,
    seed: Annotated[int | None, typer.Option(help="Where randomness begins.")] = None,
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Where to write.")] = Path("plan"),
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the plan that FOLDER holds.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace the plan that FOLDER holds.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress, only the answer.")] = False,
) -> None:
    """Under these budgets, what should I run? Tries many settings by simulation, on data that is not private.

    Writes the best as FOLDER/plan.toml, ready for hush run; a page with all that was found beside it.

    \b
    hush plan task.toml --bits-per-client 1e6 --epsilon 3 --delta 1e-5
    hush plan task.toml --bits-per-client 1e6 --epsilon 3 --unit example --minutes 10
    hush plan task.toml --seconds 3600 --capacity 1e6 --algorithms fedpaq,scaffold
    hush plan task.toml --bits-per-client 1e6 --resume
    """
    require("optuna", "matplotlib")
    given = {
        "client_bits": bits_per_client,
        "bits": bits,
        "epsilon": epsilon,
        "delta": delta,
        "unit": unit,
        "trust": trust,
        "seconds": seconds,
        "capacity": capacity,
        "energy": energy,
        "client_steps": steps_per_client,
        "rounds": rounds,
        "minutes": minutes,
        "seed": seed,
        "algorithms": None if algorithms is None else [name.strip() for name in algorithms.split(",")],
    }
    compile_quickly()
    from hush.app import planned

    asked: Mapping[str, Any] = {name: value for name, value in given.items() if value is not None}
    planned.answer(settings, asked, proxy, private_data, out, resume, force, quiet)
