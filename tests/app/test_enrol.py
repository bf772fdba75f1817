"""`hush enrol`, from what is asked to which files there are."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hush.app.main import app
from hush.network.credentials import Authority, DeviceCredential, ServerCredential
from hush.network.identities import Identities, Stranger

ROOT = Path(__file__).parents[2]
FIRST = ("--devices", 2, "--host", "localhost", "--host", "127.0.0.1")


def hush(*arguments):
    return CliRunner().invoke(app, ["enrol", *map(str, arguments)])


def fine(*arguments):
    result = hush(*arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


def fails(message, *arguments, code=2):
    result = hush(*arguments)
    assert result.exit_code == code, result.output
    assert re.search(message, result.stderr), result.stderr
    assert "Traceback" not in result.stderr


def rows(text):
    """The cells of the table's rows."""
    return [[cell.strip() for cell in line.split("│")[1:-1]] for line in text.splitlines() if "│" in line]


@pytest.fixture
def folder(tmp_path):
    fine(tmp_path / "ours", *FIRST)
    return tmp_path / "ours"


def enrolled(folder):
    return [(entry.name, entry.client) for entry in Authority.open(folder).devices()]


def test_first_time(tmp_path):
    folder = tmp_path / "ours"
    told = fine(folder, *FIRST).splitlines()
    assert [line.split("  ")[0] for line in told] == [
        str(folder / name) for name in ("authority", "server", "devices/device-0.pem", "devices/device-1.pem")
    ]
    assert "stays here" in told[0]
    assert "goes to the server, for localhost, 127.0.0.1" in told[1]
    assert ServerCredential.read(folder)
    assert [DeviceCredential.read(folder / f"devices/device-{index}.pem").client for index in range(2)] == [0, 1]
    fails("holds an authority already", folder, *FIRST)
    assert enrolled(folder) == [("device-0", 0), ("device-1", 1)]


def test_more_later(folder):
    assert fine(folder, "--name", "ward-3", "--client", 2).split("  ")[0] == str(folder / "devices/ward-3.pem")
    fine(folder, "--name", "ward-4")
    fine(folder, "--devices", 2)
    assert enrolled(folder)[2:] == [("ward-3", 2), ("ward-4", 3), ("device-4", 4), ("device-5", 5)]


def test_revoke_and_list(folder):
    ours = DeviceCredential.read(folder / "devices/device-1.pem").certificate
    identities = Identities(folder)
    assert str(folder / "server/revoked.json") in fine(folder, "--revoke", "device-1")
    with pytest.raises(Stranger):
        identities.identify(ours)
    first, second = Authority.open(folder).devices()
    assert rows(fine(folder)) == [
        ["device-0", "0", f"{first.expires:%Y-%m-%d}", ""],
        ["device-1", "1", f"{second.expires:%Y-%m-%d}", f"{second.revoked:%Y-%m-%d}"],
    ]


def test_days(folder):
    fine(folder, "--name", "long", "--days", 1000)
    short, long = (Authority.open(folder).devices()[index].expires for index in (0, -1))
    assert (long - short).days == 1000 - 365


def test_a_new_certificate_for_the_server(folder):
    before = ServerCredential.read(folder)
    assert "for fl.example.org" in fine(folder, "--host", "fl.example.org")
    assert ServerCredential.read(folder).certificate != before.certificate
    assert len(enrolled(folder)) == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--revoke", "nobody"), "no device is called 'nobody'; enrolled were: device-0, device-1"),
        (("--revoke", "device-0", "--name", "x"), "--revoke stands alone"),
        (("--revoke", "device-0", "--days", 3), "--days goes with what makes certificates"),
        (("--revoke", "device-0", "--client", 3), "--client is the number of the one device that --name names"),
        (("--days", 3), "--days goes with what makes certificates"),
        (("--devices", 2, "--name", "x"), "not both"),
        (("--devices", 2, "--client", 3), "--client is the number of the one device"),
        (("--devices", 0), "--devices must be at least 1, found 0"),
        (("--name", "../x"), "a device's name must be"),
        (("--name", "x", "--client", -1), "a client's number must be a whole number from 0"),
        (("--name", "x", "--days", 0), "days must be a whole number from 1"),
        (("--name", "device-0"), "revoke it first: hush enrol .* --revoke device-0"),
        (("--host", "a b"), "a host must be a name such as"),
    ],
)
def test_refusals_change_nothing(folder, arguments, message):
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    fails(message, folder, *arguments)
    after = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert after == before


def test_a_folder_without_an_authority(tmp_path):
    folder = tmp_path / "ours"
    fails("holds no authority", folder)
    fails("holds no authority", folder, "--revoke", "x")
    fails("holds no authority yet: .* say with --host", folder, "--devices", 3)
    fails("holds no authority yet: .* say with --host", folder, "--name", "x")
    assert not folder.exists()


def test_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    fails("could not write", tmp_path / "file" / "ours", *FIRST, code=5)


def test_help_teaches_by_example():
    assert len(re.findall(r"^ hush enrol ours", fine("--help"), re.MULTILINE)) == 4


@pytest.mark.slow
def test_nobody_waits_for_jax():
    """Neither who asks for help, nor who enrols; names of hush.network are still there for whoever asks."""
    program = (
        "import sys, hush.app.enrol, hush.network.identities\n"
        "assert not {'jax', 'numpy', 'pandas', 'grpc'} & set(sys.modules)\n"
        "import hush.network\n"
        "assert {'Guard', 'serve', 'join'} < set(hush.network.__all__) == set(dir(hush.network))\n"
        "assert all(getattr(hush.network, name).__name__ == name for name in hush.network.__all__)\n"
        "assert 'jax' in sys.modules and not hasattr(hush.network, 'guards')\n"
    )
    for command in (["-c", program], ["-X", "importtime", "-m", "hush.app.start", "enrol", "--help"]):
        own = os.environ | {"PYTHONPATH": str(ROOT / "src")}
        ran = subprocess.run([sys.executable, *command], capture_output=True, text=True, env=own, check=False)
        assert ran.returncode == 0, ran.stderr
        assert not re.search(r"\| +(jax|numpy|cryptography)$", ran.stderr, re.MULTILINE)
