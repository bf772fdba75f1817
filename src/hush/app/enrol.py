"""`hush enrol`: who may take part in a deployment, and which file goes to which machine."""

from collections.abc import Sequence
from pathlib import Path

from hush.network.credentials import DAYS, Authority
from hush.network.files import AUTHORITY, DEVICES, REVOKED, SERVER


def enrol(
    folder: Path,
    devices: int | None,
    hosts: Sequence[str],
    name: str | None,
    client: int | None,
    revoke: str | None,
    days: int | None,
) -> None:
    """Whatever of these was asked for; with nothing asked for, who is enrolled."""
    makes = devices is not None or name is not None or bool(hosts)
    _check(makes, devices, name, client, revoke, days)
    if revoke is not None:
        Authority.open(folder).revoke(revoke)
        print(f"{revoke} is revoked: copy {folder / SERVER / REVOKED} to the server, which needs no restart")
    elif makes:
        _make(folder, devices or 0, hosts, name, client, DAYS if days is None else days)
    else:
        _print_enrolled(folder)


def _check(
    makes: bool, devices: int | None, name: str | None, client: int | None, revoke: str | None, days: int | None
) -> None:
    if revoke is not None and makes:
        raise ValueError("--revoke stands alone: it takes a certificate back, and the others make some")
    if devices is not None and name is not None:
        raise ValueError("give --devices for many or --name for one, not both")
    if client is not None and name is None:
        raise ValueError("--client is the number of the one device that --name names")
    if devices is not None and devices < 1:
        raise ValueError(f"--devices must be at least 1, found {devices}")
    if days is not None and not makes:
        raise ValueError("--days goes with what makes certificates: --devices, --name or --host")


def _make(folder: Path, devices: int, hosts: Sequence[str], name: str | None, client: int | None, days: int) -> None:
    authority = _authority(folder, devices > 0 or name is not None, hosts, days)
    if hosts:
        print(f"{folder / AUTHORITY}  stays here, off line: whoever has it can let anybody in")
        print(f"{folder / SERVER}  goes to the server, for {', '.join(hosts)}")
    if name is not None:
        print(f"{authority.enrol(name, client, days)}  goes to its device, and to no other")
    for _ in range(devices):
        print(f"{authority.enrol(*_next(authority), days)}  goes to its device, and to no other")


def _authority(folder: Path, enrols: bool, hosts: Sequence[str], days: int) -> Authority:
    """The authority of a folder: made where there is none, and with a new server's certificate where that was asked."""
    if not (folder / AUTHORITY).exists():
        if not hosts:
            raise ValueError(
                f"{folder} holds no authority yet: to make one, say with --host under which names or addresses devices "
                f"reach the server, as in hush enrol {folder} --devices 5 --host fl.example.org"
            )
        return Authority.create(folder, hosts, days)
    authority = Authority.open(folder)
    if hosts and enrols:
        raise ValueError(
            f"{folder} holds an authority already: enrol more devices without --host; --host alone renews the "
            f"certificate of the server"
        )
    if hosts:
        authority.renew_server(hosts, days)
    return authority


def _next(authority: Authority) -> tuple[str, int]:
    """The least number that nobody ever had, and a name after it."""
    number = authority.free_number()
    return f"device-{number}", number


def _print_enrolled(folder: Path) -> None:
    from hush.app.tables import print_table

    rows = [
        (
            entry.name,
            str(entry.client),
            f"{entry.expires:%Y-%m-%d}",
            "" if entry.revoked is None else f"{entry.revoked:%Y-%m-%d}",
        )
        for entry in Authority.open(folder).devices()
    ]
    print_table(("name", "client", "valid until", "revoked"), rows, f"enrolled in {folder / DEVICES}")
