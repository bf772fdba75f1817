"""`hush serve` and `hush join`: a federation of real devices."""

import contextlib
import functools
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import platformdirs

from hush.app.commands import told
from hush.network.agreement import agree, in_words
from hush.network.credentials import DeviceCredential, ServerCredential
from hush.network.desk import Desk
from hush.network.federation import Exchange
from hush.network.identities import Identities
from hush.network.joining import by_digest
from hush.network.joining import join as join_federation
from hush.network.link import Lost
from hush.network.secure_sum import Verifier
from hush.network.serving import serve as serve_federation
from hush.network.tls_link import TlsLink
from hush.network.tls_server import listen
from hush.settings import build, override, read
from hush.stopping import listening


def serve(
    settings: Path,
    changes: Sequence[str],
    folder: Path,
    address: str,
    credential: Path,
    force: bool,
    rehearse: bool,
    quiet: bool,
) -> None:
    """Run the algorithm of a settings file with devices that come by themselves."""
    tables = read(settings)
    for change in changes:
        tables = override(tables, change)
    experiment = build(tables)
    server, identities = ServerCredential.read(credential), Identities(credential)
    problem = experiment.problem()
    agreement = agree(experiment.algorithm, problem, experiment.run, rehearse, experiment.task)
    if not quiet:
        _print_words(in_words(agreement, experiment.algorithm, problem), "devices are asked to agree to this")

    @contextlib.contextmanager
    def connect(desk: Desk) -> Iterator[Exchange]:
        with listen(desk, address=address, credential=server, identities=identities) as listening_at:
            if not quiet:
                _say(f"listening at {address.rpartition(':')[0]}:{listening_at.port}")
            yield listening_at

    places: dict[str, Any] = {"folder": folder, "replace": force, "rehearsal": rehearse, "rules": experiment.network}
    places["verifier"] = Verifier(identities.authority)
    run = functools.partial(serve_federation, experiment.algorithm, problem, experiment.run, connect, **places)
    told(quiet, lambda: run(task=experiment.task, progress=not quiet))


def join(
    server: str,
    credential: Path,
    data: str,
    label: str,
    folder: Path | None,
    agree_to: str | None,
    epsilon: float | None,
    again: bool,
    rehearse: bool,
    patience: float | None,
    quiet: bool,
) -> None:
    """Take part in a federation with one's own data."""
    own = DeviceCredential.read(credential)
    place = state_folder(own.name) if folder is None else folder
    say: Callable[[str], None] = (lambda text: None) if quiet else _say
    consent = _asked if agree_to is None else _shown(by_digest(agree_to), quiet)
    with listening() as stopping:
        stopping.finishing = True  # what is being computed is finished, written and sent first
        stopping.spoken = False
        link = TlsLink(server, own)
        try:
            end = join_federation(
                link,
                own.client,
                data,
                place,
                consent=consent,
                label=label,
                epsilon=epsilon,
                again=again,
                rehearse=rehearse,
                credential=own,
                patience=patience,
                stopped=lambda: bool(stopping),
                say=say,
            )
        finally:
            stopping.finishing = False
            link.close()
        stopping.check()
    if end is None:
        raise Lost("the server was away for too long; what this device has spent and remembers is kept")
    say(f"the run is over: {end.reason}")


def state_folder(name: str) -> Path:
    """Where a device keeps its own, if nothing else is said."""
    return Path(platformdirs.user_data_dir("hush")) / "devices" / name


def _asked(words: dict[str, str]) -> bool:
    """The owner is shown what is asked for, and types yes or no."""
    _print_words(words, "this device is asked to agree to this")
    if not sys.stdin.isatty():
        print(f"to agree without being asked: --agree {words['agreement']}", file=sys.stderr)
        return False
    return input("agree? [y/N] ").strip().lower() in ("y", "yes")


def _shown(consent: Callable[[dict[str, str]], bool], quiet: bool) -> Callable[[dict[str, str]], bool]:
    def asked(words: dict[str, str]) -> bool:
        if not quiet:
            _print_words(words, "this device is asked to agree to this")
        return consent(words)

    return asked


def _print_words(words: dict[str, Any], title: str) -> None:
    from hush.app.tables import print_table

    print_table(("", ""), ([name, str(text)] for name, text in words.items()), title)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
