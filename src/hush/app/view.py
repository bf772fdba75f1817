"""The command `hush view`: what can be asked for, and how."""

from pathlib import Path
from typing import Annotated

import typer

from hush.extras import require


def view(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="A folder of runs, which may lie at any depth in it.")
    ] = Path("runs"),
    port: Annotated[int, typer.Option(min=0, max=65535, help="Where to serve; 0 is any port that is free.")] = 0,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page in the browser.")] = True,
) -> None:
    """Look at runs in the browser: a list that is live while they run, their reports, and several side by side.

    Nothing is written, and nobody else can look: the page is served to this machine alone, and its address holds a
    token that is new every time. Runs on another machine: ssh -L 8765:localhost:8765 THERE, with --port 8765 there.
    Ctrl-C ends it; runs go on.

    \b
    hush view
    hush view runs/demo
    hush view results --port 8765 --no-browser
    """
    require("starlette", "uvicorn", "matplotlib")
    from hush.app import viewing

    viewing.view(folder, port, browser)
