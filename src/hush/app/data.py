"""The commands `hush data …`: what can be asked for, and how. The work is imported when it is needed."""

from pathlib import Path
from typing import Annotated, Any

import typer

from hush.app.failures import plainly

app = typer.Typer(
    help="Populations on disk: pack clients' examples into a folder, and look at one.\n\n"
    "A run then reads the clients of a round, and no others: \\[task] name = 'stored', path = 'FOLDER'.",
    no_args_is_help=True,
    rich_markup_mode="rich",
)


@app.command()
@plainly
def pack(
    sources: Annotated[
        list[Path],
        typer.Argument(metavar="SOURCE...", help="Parquet, CSV or LEAF's JSON files, or folders of one of these."),
    ],
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Where to write the store; not there yet.")],
    target: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Of tables: the column that is to be predicted.")
    ] = None,
    client: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Of tables: the column that says who holds a row.")
    ] = None,
    features: Annotated[
        str | None, typer.Option(metavar="COLUMNS", help="Of tables: the inputs, with commas between; all if none.")
    ] = None,
    test: Annotated[
        Path | None, typer.Option(metavar="SOURCE", help="What all are tested on, of the same kind as the sources.")
    ] = None,
    shape: Annotated[
        str | None, typer.Option(metavar="NUMBERS", help="Of LEAF's files: the shape of an input, such as 28,28.")
    ] = None,
    separator: Annotated[str, typer.Option(help="Of CSV files: what stands between values.")] = ",",
    kind: Annotated[str, typer.Option(help="classification, binary or regression.")] = "classification",
    classes: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES",
            help="The classes in their order, with commas between. Without it they are those found in the data, of "
            "which a privacy guarantee takes for granted that they were known beforehand.",
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the store that FOLDER holds.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress and no summary.")] = False,
) -> None:
    """Pack files into a store, which may be far larger than memory: client after client, in Arrow files.

    Rows may come in any order. They are sorted by client on disk, which takes as much room again while it lasts.
    What is killed half-way leaves no store. Arrays and iterators of your own: hush.tasks.pack in Python.

    \b
    hush data pack visits.parquet visits-store --target outcome --client hospital
    hush data pack 2023/ 2024/ all-store --target y --client user --features age,dose --test held-out.parquet
    hush data pack femnist/data femnist-store --shape 28,28
    """
    from hush.app import packing

    options: dict[str, Any] = {"target": target, "client": client, "test": test, "separator": separator, "kind": kind}
    options |= {"features": packing.listed(features), "classes": packing.listed(classes)}
    packing.pack(sources, folder, options | {"shape": packing.numbers(shape)}, force, quiet)


@app.command()
@plainly
def show(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="A store, as hush data pack writes it.")],
    check: Annotated[
        bool, typer.Option("--check", help="Read all of it, and compare with the digest that was written.")
    ] = False,
) -> None:
    """What a store holds: clients, examples, shapes, classes, and the digest by which a run knows it again.

    \b
    hush data show visits-store
    hush data show visits-store --check
    """
    from hush.app import packing

    packing.show(folder, check)
