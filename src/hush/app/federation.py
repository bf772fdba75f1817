"""The commands of a federation of real devices: what can be asked for, and how. The work is imported when needed."""

from pathlib import Path
from typing import Annotated

import typer


def enrol(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="The folder of an enrolment.")],
    devices: Annotated[
        int | None, typer.Option(metavar="N", help="Enrol N devices, called device-0, device-1 …")
    ] = None,
    hosts: Annotated[
        list[str] | None,
        typer.Option(
            "--host",
            metavar="HOST",
            help="A name or address under which devices reach the server; may be given many times. "
            "Later, and alone: a new certificate for the server.",
        ),
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="Enrol one device of this name: letters, digits, '.', '_' and '-'.")
    ] = None,
    client: Annotated[
        int | None, typer.Option(metavar="N", help="Its number among the clients; without one, the next free.")
    ] = None,
    revoke: Annotated[str | None, typer.Option(metavar="NAME", help="Take a device's certificate back.")] = None,
    days: Annotated[int | None, typer.Option(metavar="N", help="How long a certificate is valid; 365 if none.")] = None,
) -> None:
    """Say who may take part in a deployment: certificates for its server and each of its devices.

    \b
    hush enrol ours --devices 5 --host fl.example.org --host 192.0.2.7
    hush enrol ours --name ward-3 --client 7
    hush enrol ours --revoke ward-3
    hush enrol ours

    The folder server/ goes to the server, each devices/NAME.pem to its device, and authority/ stays with you.
    """
    from hush.app import enrol as enrolling

    enrolling.enrol(folder, devices, hosts or [], name, client, revoke, days)


def serve(
    settings: Annotated[Path, typer.Argument(metavar="SETTINGS.toml", help="What is run, as for hush run.")],
    folder: Annotated[
        Path, typer.Option("--folder", metavar="FOLDER", help="The run folder; one begun before is gone on with.")
    ],
    credential: Annotated[
        Path, typer.Option("--credential", metavar="FOLDER", help="The server's folder, as hush enrol has made it.")
    ],
    listen: Annotated[
        str, typer.Option("--listen", metavar="HOST:PORT", help="Where devices find this server.")
    ] = "0.0.0.0:7443",
    changes: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Change one setting; may be given many times."),
    ] = None,
    rehearse: Annotated[
        bool,
        typer.Option("--rehearse", help="All randomness from the seed, to compare with hush run: PROTECTS NOBODY."),
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Begin anew, and replace the run that FOLDER holds.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress and no summary.")] = False,
) -> None:
    """Deploy: run the algorithm of a settings file with real devices, which come by themselves (hush join).

    Records, checkpoints and the report are those of hush run. Killed, it goes on with the same command: no round is
    made twice, and no device's part is forgotten. For how long a round waits, and for how many: the table [network].

    \b
    hush enrol enrolment --devices 5 --host fl.example.org
    hush serve my.toml --folder runs/field --credential enrolment/server
    hush devices runs/field
    """
    from hush.app import serve as serving

    serving.serve(settings, changes or [], folder, listen, credential, force, rehearse, quiet)


def join(
    server: Annotated[str, typer.Option("--server", metavar="HOST:PORT", help="Where the server is.")],
    credential: Annotated[
        Path, typer.Option("--credential", metavar="DEVICE.pem", help="This device's file, as hush enrol has made it.")
    ],
    data: Annotated[
        str,
        typer.Option(
            "--data",
            metavar="DATA",
            help="This device's examples: an .npz file with x and y, a .parquet file, a .txt file for a task of "
            "text, module:function of your own that returns (x, y), or task for its share of the settings' own data.",
        ),
    ],
    label: Annotated[str, typer.Option("--label", metavar="COLUMN", help="Of a .parquet file, the labels.")] = "y",
    state: Annotated[
        Path | None,
        typer.Option("--state", metavar="FOLDER", help="Where this device keeps its agreement, ledger and memory."),
    ] = None,
    agree: Annotated[
        str | None,
        typer.Option("--agree", metavar="DIGEST", help="Agree beforehand to the agreement with this digest."),
    ] = None,
    epsilon: Annotated[
        float | None, typer.Option(help="Stop at this ε, where that is less than was agreed to.")
    ] = None,
    again: Annotated[
        bool, typer.Option("--again", help="Take part in a new run of the same agreement; what was spent counts on.")
    ] = False,
    rehearse: Annotated[
        bool, typer.Option("--rehearse", help="Take part in a rehearsal, which PROTECTS NOBODY.")
    ] = False,
    patience: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="Give up after so long without the server; never if none.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing.")] = False,
) -> None:
    """Take part in a federation with this device's own data, which never leaves it.

    The first time, its owner is shown what is asked for (algorithm, unit, ε, bits a round) and agrees or not; from then
    on anything else is refused. Noise is drawn here; what was spent is counted here, whatever the server says.

    \b
    hush join --server fl.example.org:7443 --credential device-3.pem --data mine.npz
    hush join --server fl.example.org:7443 --credential device-3.pem --data mine.parquet --label diagnosis
    hush devices --mine
    """
    from hush.app import serve as serving

    serving.join(server, credential, data, label, state, agree, epsilon, again, rehearse, patience, quiet)


def devices(
    folder: Annotated[
        Path | None, typer.Argument(metavar="RUN", help="The folder of a federation, as hush serve writes it.")
    ] = None,
    mine: Annotated[bool, typer.Option("--mine", help="What the devices of this machine have spent.")] = False,
    state: Annotated[
        Path | None, typer.Option("--state", metavar="FOLDER", help="With --mine: the folder of one device.")
    ] = None,
) -> None:
    """Who takes part in a federation: rounds, bits and ε of each device; or, with --mine, what one's own have spent.

    \b
    hush devices runs/field
    hush devices --mine
    """
    from hush.app import devices as listing

    if mine == (folder is not None):
        raise ValueError("say either the folder of a federation, or --mine")
    if mine:
        listing.mine(state)
    elif folder is not None:
        listing.devices(folder)


COMMANDS = (enrol, serve, join, devices)
