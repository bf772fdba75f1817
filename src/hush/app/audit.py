"""The command `hush audit`: its options."""

from pathlib import Path
from typing import Annotated

import typer

from hush.cores import compile_quickly

WHAT = "A settings file, as hush run takes it; or the folder of a run, with the rounds that it came to."
METHODS = "Which attacks, with commas between: pairs, canaries, membership, reconstruction, exposure."
SEES = "What it sees: 'final model', 'every model', 'sum' or 'messages'; several with commas between."


def audit(
    settings: Annotated[Path, typer.Argument(metavar="SETTINGS.toml|RUN", help=WHAT)],
    changes: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Change one setting; may be given many times."),
    ] = None,
    delta: Annotated[float | None, typer.Option(help="δ of the claim; run.delta if not given.")] = None,
    unit: Annotated[str | None, typer.Option(help="What is protected: client or example; run.unit.")] = None,
    trust: Annotated[str | None, typer.Option(help="Who is trusted: server, sum, local, air …; run.trust.")] = None,
    adversary: Annotated[str | None, typer.Option(metavar="NAME", help=SEES)] = None,
    methods: Annotated[str, typer.Option(metavar="NAMES", help=METHODS)] = "pairs",
    epsilon: Annotated[
        float | None, typer.Option(help="An ε that is claimed, in place of what the accountant says.")
    ] = None,
    rounds: Annotated[int | None, typer.Option(help="How many rounds: run.rounds.")] = None,
    lanes: Annotated[int | None, typer.Option(help="How many runs an attack makes: more show more.")] = None,
    minutes: Annotated[float | None, typer.Option(help="In place of --lanes: about how long pairs may take.")] = None,
    confidence: Annotated[float | None, typer.Option(help="Of all lower bounds together; 0.95 if not given.")] = None,
    seed: Annotated[int, typer.Option(help="Where the attacks' randomness begins.")] = 0,
    out: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Where to write: audit, or RUN/audit, if not given.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the audit that FOLDER holds.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace the audit that FOLDER holds.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress, only the answer.")] = False,
) -> None:
    """Does the ε hold? Attacks what is trained, and puts the ε that is claimed beside the least that was shown.

    Writes FOLDER/audit.html with all that was found. Exit code 3 where a lower bound exceeds the claim.

    \b
    hush audit my.toml
    hush audit runs/first --adversary 'final model'
    hush audit my.toml --methods pairs,canaries,membership --lanes 4000
    hush audit my.toml --epsilon 1.5 --delta 1e-5
    hush audit my.toml --resume
    """
    compile_quickly()
    from hush.app import audited

    asked = {
        "delta": delta,
        "unit": unit,
        "trust": trust,
        "epsilon": epsilon,
        "rounds": rounds,
        "lanes": lanes,
        "minutes": minutes,
    }
    given = {name: value for name, value in (asked | {"confidence": confidence}).items() if value is not None}
    audited.answer(settings, changes or [], given, adversary, methods, seed, out, resume, force, quiet)
