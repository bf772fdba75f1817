"""Enrolments that tests of the network share, servers for them, and a clock to turn."""

import shutil
import sys
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from hush.network import certificates, credentials
from hush.network.credentials import Authority

HOSTS = ["localhost", "127.0.0.1"]


@pytest.fixture(scope="module")
def enrolment(tmp_path_factory):
    """An enrolment with two devices, that nobody changes."""
    folder = tmp_path_factory.mktemp("enrolments") / "ours"
    authority = Authority.create(folder, HOSTS)
    authority.enrol("ward-3", 7)
    authority.enrol("device-0")
    return folder


@pytest.fixture
def folder(enrolment, tmp_path):
    """A copy of it, to change."""
    return Path(shutil.copytree(enrolment, tmp_path / "ours"))


@pytest.fixture(scope="module")
def other(tmp_path_factory):
    """Another authority under the same name, with devices under the same names and numbers."""
    folder = tmp_path_factory.mktemp("enrolments") / "theirs"
    Authority.create(folder, HOSTS).enrol("ward-3", 7)
    return folder


@pytest.fixture
def clock(monkeypatch):
    """A function that moves this machine's clock by some days."""

    def move(days):
        monkeypatch.setattr(certificates, "now", lambda: datetime.now(UTC) + timedelta(days=days))
        monkeypatch.setattr(credentials, "now", certificates.now)

    return move


@pytest.fixture(scope="module")
def tls(tmp_path_factory):
    """A server and devices of one authority."""
    sys.path.insert(0, str(Path(__file__).parent))
    from network_helpers import OverTls

    return OverTls(tmp_path_factory.mktemp("tls") / "ours")


@pytest.fixture
def no_threads_left():
    """Threads of ours end with what they were for."""
    yield
    from network_helpers import until

    until(lambda: not [thread for thread in threading.enumerate() if thread.name.startswith("hush-")])
