"""The authority: numbers, names, what a failure leaves behind, and who may read what."""

import os
import shutil
import stat
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest
from cryptography import x509

from hush.network import credentials
from hush.network.credentials import Authority, DeviceCredential
from hush.network.files import write_privately
from hush.network.identities import Identities, Stranger

HOSTS = ["localhost", "127.0.0.1"]


def device(folder, name="ward-3"):
    return folder / "devices" / f"{name}.pem"


def certificate_of(path):
    return x509.load_pem_x509_certificate(path.read_bytes())


def pem(folder, name="ward-3"):
    return DeviceCredential.read(device(folder, name)).certificate


class TestAuthority:
    def test_one_folder_one_authority(self, folder, tmp_path):
        key = (folder / "authority" / "ca.key").read_bytes()
        with pytest.raises(ValueError, match="authority is there already"):
            Authority.create(folder, HOSTS)
        assert (folder / "authority" / "ca.key").read_bytes() == key
        # A copy that went to the server is not overwritten either.
        shutil.copytree(folder / "server", tmp_path / "elsewhere" / "server")
        with pytest.raises(ValueError, match="server is there already"):
            Authority.create(tmp_path / "elsewhere", HOSTS)

    def test_none_to_open(self, tmp_path):
        with pytest.raises(ValueError, match="holds no authority"):
            Authority.open(tmp_path)

    def test_numbers(self, folder):
        authority = Authority.open(folder)
        authority.enrol("a")
        authority.enrol("b")
        authority.revoke("device-0")
        authority.enrol("c")  # does not inherit what the server keeps for client 0
        authority.enrol("device-0")  # the same device again
        authority.revoke("a")
        authority.enrol("d", 1)  # in the place of another, because that was said
        authority.revoke("a")
        authority.enrol("a")  # its number is another's by now
        found = [(entry.name, entry.client, entry.revoked is None) for entry in authority.devices()]
        assert found == [
            ("ward-3", 7, True),
            ("device-0", 0, False),
            ("a", 1, False),
            ("b", 2, True),
            ("c", 3, True),
            ("device-0", 0, True),
            ("d", 1, True),
            ("a", 4, True),
        ]
        valid = Counter(client for _, client, unrevoked in found if unrevoked)
        assert set(valid.values()) == {1}
        for entry in authority.devices():
            if entry.revoked is None:
                credential = DeviceCredential.read(device(folder, entry.name))
                assert (credential.name, credential.client, credential.expires) == (
                    entry.name,
                    entry.client,
                    entry.expires,
                )

    @pytest.mark.parametrize(("name", "client"), [("ward-3", None), ("ward-3", 9), ("new", 7), ("WARD-3", None)])
    def test_a_name_or_number_that_is_taken(self, folder, name, client):
        kept = device(folder).read_bytes()
        with pytest.raises(ValueError, match=r"client 7 is ward-3, .* hush enrol \S+ --revoke ward-3"):
            Authority.open(folder).enrol(name, client)
        assert device(folder).read_bytes() == kept

    @pytest.mark.parametrize("client", [-1, 2**31, True, 1.0, "1"])
    def test_bad_numbers(self, folder, client):
        with pytest.raises(ValueError, match="a client's number must be a whole number from 0"):
            Authority.open(folder).enrol("new", client)

    def test_nobody_to_revoke(self, folder):
        with pytest.raises(ValueError, match="no device is called 'ward-4'; enrolled were: device-0, ward-3"):
            Authority.open(folder).revoke("ward-4")

    def test_many_writers_give_every_device_a_number_of_its_own(self, folder):
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda index: Authority.open(folder).enrol(f"x{index}"), range(8)))
        clients = [entry.client for entry in Authority.open(folder).devices()]
        assert len(clients) == len(set(clients)) == 10

    @pytest.mark.parametrize("text", ["", "{}", "[]", '{"devices": [{}]}', '{"devices": [1]}', "\xff"])
    def test_a_damaged_registry_is_not_an_empty_one(self, folder, text):
        (folder / "authority" / "registry.json").write_bytes(text.encode("latin-1"))
        for use in (Authority.open, lambda folder: Authority(folder).enrol("x"), lambda f: Authority(f).revoke("x")):
            with pytest.raises(ValueError, match="is no registry that can be read"):
                use(folder)
        (folder / "authority" / "registry.json").unlink()
        with pytest.raises(ValueError, match=r"cannot read \S+registry.json: No such file"):
            Authority.open(folder)

    def test_a_key_that_is_not_the_authoritys(self, folder, other):
        shutil.copy(other / "authority" / "ca.key", folder / "authority" / "ca.key")
        with pytest.raises(ValueError, match=r"ca\.key cannot be used: the private key is not that of the certificate"):
            Authority.open(folder)


class TestFailuresBetweenWrites:
    @pytest.fixture
    def disk(self, monkeypatch):
        """A function that lets a number of files be written, after which the disk is full."""

        def room_for(count):
            left = [count]

            def write(path, content):
                left[0] -= 1
                if left[0] < 0:
                    raise OSError(28, "No space left on device", str(path))
                write_privately(path, content)

            monkeypatch.setattr(credentials, "write_privately", write)

        return room_for

    def test_a_certificate_that_exists_is_known(self, folder, disk):
        """Whatever was written, a device's file has its entry."""
        for count in range(3):
            disk(count)
            if count < 2:
                with pytest.raises(OSError, match="No space"):
                    Authority.open(folder).enrol(f"new-{count}")
            else:
                Authority.open(folder).enrol(f"new-{count}")
            entered = {f"{entry.serial:x}" for entry in Authority.open(folder).devices()}
            there = {f"{certificate_of(path).serial_number:x}" for path in (folder / "devices").iterdir()}
            assert there <= entered
            assert len(entered) == 2 + count  # of the first, nothing; of the second, only the entry
        disk(9)
        with pytest.raises(ValueError, match="--revoke new-1"):
            Authority.open(folder).enrol("new-1")
        Authority.open(folder).revoke("new-1")
        assert DeviceCredential.read(Authority.open(folder).enrol("new-1")).client == 1

    def test_revoking_again_ends_what_was_cut_short(self, folder, disk):
        disk(1)
        with pytest.raises(OSError, match="No space"):
            Authority.open(folder).revoke("ward-3")
        disk(9)
        when = [entry.revoked for entry in Authority.open(folder).devices()]
        Authority.open(folder).revoke("ward-3")
        assert [entry.revoked for entry in Authority.open(folder).devices()] == when
        with pytest.raises(Stranger, match="ward-3 was revoked"):
            Identities(folder).identify(pem(folder))

    def test_a_write_that_fails_leaves_what_was_there(self, tmp_path, monkeypatch):
        path = tmp_path / "secret"
        write_privately(path, b"before")
        monkeypatch.setattr("os.fsync", lambda descriptor: (_ for _ in ()).throw(OSError("gone")))
        with pytest.raises(OSError, match="gone"):
            write_privately(path, b"after")
        assert path.read_bytes() == b"before"
        assert list(tmp_path.iterdir()) == [path]


class TestPermissions:
    def test_nobody_else_reads_anything(self, tmp_path, monkeypatch):
        modes = []

        def looked_at(descriptor, real=os.fsync):
            modes.append(stat.S_IMODE(os.fstat(descriptor).st_mode))
            return real(descriptor)

        monkeypatch.setattr("os.fsync", looked_at)  # before a file has its name
        before = os.umask(0)  # the most careless user
        try:
            authority = Authority.create(tmp_path / "deep" / "ours", HOSTS)
            authority.enrol("ward-3")
            authority.revoke("ward-3")
            authority.enrol("ward-3")
            authority.renew_server(HOSTS)
        finally:
            os.umask(before)
        assert set(modes) == {0o600, 0o700}
        found = [authority.folder, *authority.folder.rglob("*")]
        assert len([path for path in found if path.is_file()]) == 9  # with the lock
        for path in found:
            assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path

    def test_each_machine_gets_what_it_needs_and_no_more(self, enrolment):
        keys = {path.name: path.read_bytes().count(b"PRIVATE KEY-----\n") // 2 for path in enrolment.rglob("*.*")}
        assert [name for name, count in sorted(keys.items()) if count] == [
            "ca.key",
            "device-0.pem",
            "server.key",
            "ward-3.pem",
        ]
        assert set(keys.values()) == {0, 1}
        assert sorted(path.name for path in (enrolment / "server").iterdir()) == [
            "ca.crt",
            "revoked.json",
            "server.crt",
            "server.key",
        ]
