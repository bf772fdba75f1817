"""The command `hush`: what can be asked for, and how.

The work is in the neighbouring files, imported when it is needed: JAX takes a second, which nobody who asks for help
should wait.
"""

import warnings
from pathlib import Path
from typing import Annotated

import typer

from hush.app import audit as auditing
from hush.app import data, federation
from hush.app import plan as planning
from hush.app import view as viewing
from hush.app.citations import SUBJECTS
from hush.app.failures import EPILOGUE, plainly, show_tracebacks
from hush.app.processes import CoordinatorOption, ProcessesOption, ProcessOption, begin
from hush.extras import require
from hush.version import __version__

app = typer.Typer(
    help="Federated learning where devices keep their data, say little, and stay private.\n\n"
    "Begin with [bold]hush run[/bold]; then [bold]hush show fedavg > my.toml[/bold], edit it, and "
    "[bold]hush run my.toml[/bold].",
    epilog=EPILOGUE,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

RunArgument = Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run.")]
TrackOption = Annotated[
    str | None,
    typer.Option(
        metavar="TRACKER",
        help="Tell a tracker of each evaluation: tensorboard=FOLDER, mlflow, mlflow=EXPERIMENT or wandb=PROJECT.",
    ),
]


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"hush {__version__}")
        raise typer.Exit


@app.callback()
def options(
    debug: Annotated[
        bool, typer.Option("--debug", envvar="HUSH_DEBUG", help="Show where in the program an error arose.")
    ] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """What goes before any command."""
    show_tracebacks(debug)


@app.command()
@plainly
def run(
    settings: Annotated[
        Path | None,
        typer.Argument(metavar="SETTINGS.toml", help="A settings file; without one, the default settings."),
    ] = None,
    changes: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Change one setting; may be given many times."),
    ] = None,
    seeds: Annotated[int | None, typer.Option(help="How many repetitions: run.repetitions.")] = None,
    rounds: Annotated[int | None, typer.Option(help="How many rounds: run.rounds.")] = None,
    bits: Annotated[
        float | None, typer.Option(help="A budget of uplink bits, which ends the run: run.bit_budget.")
    ] = None,
    client_bits: Annotated[
        float | None,
        typer.Option(help="A budget of uplink bits of each client; at its end, run.when_spent: run.client_bit_budget."),
    ] = None,
    epsilon: Annotated[
        float | None, typer.Option(help="A budget of privacy, which ends the run: run.epsilon, at run.delta.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Where to write; runs/ALGORITHM-TASK-TIME if not given.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the run that FOLDER holds.")] = False,
    through_bytes: Annotated[
        bool,
        typer.Option("--through-bytes", help="Make every message into bytes and back, as between machines; slower."),
    ] = False,
    track: TrackOption = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress and no summary.")] = False,
    coordinator: CoordinatorOption = None,
    process: ProcessOption = None,
    processes: ProcessesOption = None,
) -> None:
    """Train: run the algorithm of a settings file on its task, and write a folder with records, models and a report.

    Without a file: FedAvg on handwritten digits, 20 clients with 2 classes each.

    \b
    hush run
    hush run my.toml --seeds 5 --out runs/first
    hush run my.toml --set local.lr=0.05 --set task.clients=50
    hush run my.toml --set 'sweep.local.lr=[0.01, 0.1, 1.0]'
    hush run my.toml --track tensorboard=logs/first
    srun --ntasks 8 hush run my.toml --out runs/first
    hush run my.toml --coordinator node-1:7444 --process 0 --processes 2
    """
    begin(coordinator, process, processes)
    from hush.app import commands

    changed = {"repetitions": seeds, "rounds": rounds, "bit_budget": bits, "client_bit_budget": client_bits}
    commands.run(settings, changes or [], changed | {"epsilon": epsilon}, out, force, through_bytes, track, quiet)


@app.command()
@plainly
def resume(
    folder: RunArgument,
    rounds: Annotated[int | None, typer.Option(help="Go on to this round instead of the one first asked for.")] = None,
    bits: Annotated[float | None, typer.Option(help="Go on to this budget of uplink bits.")] = None,
    client_bits: Annotated[float | None, typer.Option(help="Go on to this budget of each client's.")] = None,
    track: TrackOption = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress and no summary.")] = False,
    coordinator: CoordinatorOption = None,
    process: ProcessOption = None,
    processes: ProcessesOption = None,
) -> None:
    """Go on with a run that was interrupted, from its last checkpoint; it ends as if it never had been.

    \b
    hush resume runs/first
    hush resume runs/first --rounds 200
    hush launch -n 2 -- resume runs/first

    Any number of processes may go on with a run, however many it was begun with.
    """
    begin(coordinator, process, processes)
    from hush.app import commands

    commands.resume(folder, {"rounds": rounds, "bit_budget": bits, "client_bit_budget": client_bits}, track, quiet)


@app.command()
@plainly
def launch(
    command: Annotated[
        list[str], typer.Argument(metavar="-- COMMAND...", help="run or resume, with all that it takes.")
    ],
    processes: Annotated[int, typer.Option("-n", metavar="N", help="How many processes.")] = 2,
) -> None:
    """Start several processes of one run on this machine: its cores shared out evenly, or a GPU for each.

    What process 0 shows is shown; of the others only what they say when they fail, each line with their number. Ctrl-C
    goes to all of them, and the exit code is the worst of theirs. On several machines, a scheduler does this: srun,
    mpirun, or hush run with --coordinator on each of them.

    \b
    hush launch -n 2 -- run my.toml --out runs/first
    hush launch -n 4 -- resume runs/first
    """
    from hush.app import launch as launching

    launching.launch(processes, command)


@app.command()
@plainly
def report(folder: RunArgument) -> None:
    """Write the report of a run anew, and print where it is.

    \b
    hush report runs/first
    """
    require("matplotlib")
    from hush.app import commands

    commands.report(folder)


@app.command()
@plainly
def compare(
    folders: Annotated[list[Path], typer.Argument(metavar="RUN...", help="The folders of two or more runs.")],
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Where to write.")] = Path("comparison"),
) -> None:
    """Put runs side by side: a table here, and a page with curves in FOLDER.

    \b
    hush compare runs/fedavg runs/scaffold --out runs/comparison
    """
    require("matplotlib")
    from hush.app import commands

    commands.compare(folders, out)


@app.command("list")
@plainly
def list_(
    slot: Annotated[str | None, typer.Argument(help="A slot, such as local; without one, an overview.")] = None,
) -> None:
    """What there is: the pieces for each slot, algorithms, tasks and models, with their settings.

    \b
    hush list
    hush list local
    hush list task
    """
    from hush.app import listing

    listing.print_list(slot)


@app.command()
@plainly
def show(
    name: Annotated[
        str, typer.Argument(help="An algorithm, or any name of hush list (slot.name where two slots share it).")
    ] = "fedavg",
    pieces: Annotated[bool, typer.Option("--pieces", help="Write the algorithm out, piece by piece.")] = False,
) -> None:
    """Print a complete settings file to edit, or the table of one piece.

    \b
    hush show > my.toml
    hush show scaffold --pieces > my.toml
    hush show clip
    """
    from hush.app import show as printed

    typer.echo(printed.text(name, pieces), nl=False)


@app.command()
@plainly
def privacy(
    clients: Annotated[
        int | None, typer.Option(metavar="N", help="Protect a client: how many there are in all.")
    ] = None,
    per_round: Annotated[
        int | None, typer.Option(metavar="N", help="How many clients a round has; all if none.")
    ] = None,
    examples: Annotated[
        int | None, typer.Option(metavar="N", help="Protect an example from the server: how many its client holds.")
    ] = None,
    subset: Annotated[
        int | None, typer.Option(metavar="N", help="How many of a client's examples a round uses; all if none.")
    ] = None,
    delta: Annotated[
        float | None, typer.Option(help="δ, the probability that ε may fail; well below 1/clients or 1/examples.")
    ] = None,
    rounds: Annotated[
        int | None, typer.Option(help="How many rounds; of --examples, those its client takes part in.")
    ] = None,
    noise: Annotated[
        float | None,
        typer.Option(
            help="Clients: deviation of the noise on a round's sum, over the clipping bound. "
            "Examples: deviation over the sensitivity."
        ),
    ] = None,
    epsilon: Annotated[
        float | None, typer.Option(help="ε, what an observer may learn of one client or example.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")] = False,
) -> None:
    """What privacy costs: give two of --rounds, --noise and --epsilon, and the third is worked out.

    \b
    hush privacy --clients 500 --per-round 50 --delta 1e-5 --rounds 80 --noise 2
    hush privacy --clients 500 --per-round 50 --delta 1e-5 --rounds 80 --epsilon 2
    hush privacy --clients 500 --per-round 50 --delta 1e-5 --noise 2 --epsilon 2
    hush privacy --examples 600 --subset 120 --delta 1e-4 --rounds 10 --noise 4.3

    A row for each way to sample, by every accountant that has a proof for it, and below it what is assumed.
    """
    from hush.app import privacy as calculator

    calculator.calculate(clients, per_round, examples, subset, delta, rounds, noise, epsilon, json)


@app.command()
@plainly
def cite(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME|RUN|SETTINGS.toml", help="What to cite; all if none.")
    ] = None,
) -> None:
    """Print BibTeX entries of the papers and data sets behind what you use.

    \b
    hush cite runs/first > references.bib
    hush cite scaffold mnist
    """
    from hush.app import cite as citing

    typer.echo(citing.bibtex(names or []), nl=False)


_PAPERS = f"""Run the experiments of a paper again: its tables and figures, and a verdict on each of its claims.

\b
{chr(10).join(f"{name:<14}{about}" for name, about in SUBJECTS.items())}

\b
hush paper fedpaq-dp --quick
hush paper fedpaq-dp --figure 3
hush paper clipping --figure table-1
hush paper fedpaq-dp --out docs/results
"""


@app.command(help=_PAPERS)
@plainly
def paper(
    name: Annotated[str, typer.Argument(help=f"Which paper: {', '.join(SUBJECTS)}.")] = "fedpaq-dp",
    figure: Annotated[
        str | None,
        typer.Option(metavar="N", help="Only this figure or table: table, 2, 3, 4 …; table-1 …"),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="A trial in seconds, on the embedded digits.")] = False,
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Where to write the page and its figures.")] = Path(
        "runs/papers"
    ),
    keep: Annotated[
        Path, typer.Option(metavar="FOLDER", help="Where each run is kept as it ends, and read the next time.")
    ] = Path("runs/papers/kept"),
    fresh: Annotated[bool, typer.Option("--fresh", help="Make every run anew, also those that are kept.")] = False,
    long: Annotated[bool, typer.Option("--long", help="Also what takes an hour on two cores (clipping-fair).")] = False,
) -> None:
    """Run the experiments of a paper again."""
    require("matplotlib", *(("arviz", "blackjax") if name == "fa-ld" else ()))
    from hush.app import paper as papers

    papers.reproduce(name, figure, quick, out, keep, fresh, long)


app.command()(plainly(planning.plan))
app.command()(plainly(auditing.audit))
app.command()(plainly(viewing.view))
app.add_typer(data.app, name="data")
for command in federation.COMMANDS:
    app.command()(plainly(command))


def main() -> None:
    """The command, with warnings in one line."""
    # A warning is for the user to read: where in the program it arose is not.
    warnings.formatwarning = lambda message, *_, **__: f"warning: {message}\n"
    app(prog_name="hush")
