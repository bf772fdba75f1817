"""Certificates of a deployment, held to other people's opinions: Python's ssl, cryptography's verifier, and gRPC."""

import ipaddress
import json
import os
import shutil
import socket
import ssl
import stat
import string
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import grpc
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509 import verification
from cryptography.x509.oid import ExtendedKeyUsageOID
from hypothesis import given
from hypothesis import strategies as st

from hush.network import certificates, credentials
from hush.network.credentials import Authority, DeviceCredential, ServerCredential
from hush.network.files import write_privately
from hush.network.identities import Identities, Identity, Stranger

HOSTS = ["localhost", "127.0.0.1"]
HANGS = 30  # seconds after which a handshake is given up


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """An enrolment with two devices, that nobody changes."""
    folder = tmp_path_factory.mktemp("enrolments") / "ours"
    authority = Authority.create(folder, HOSTS)
    authority.enrol("ward-3", 7)
    authority.enrol("device-0")
    return folder


@pytest.fixture
def folder(original, tmp_path):
    """A copy of it, to change."""
    return Path(shutil.copytree(original, tmp_path / "ours"))


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


def device(folder, name="ward-3"):
    return folder / "devices" / f"{name}.pem"


def certificate_of(path):
    return x509.load_pem_x509_certificate(path.read_bytes())


def pem(folder, name="ward-3"):
    return DeviceCredential.read(device(folder, name)).certificate


def handshake(shown_by_server, authority_of_server, shown_by_device, authority_of_device, host="localhost"):
    """The certificate that a server sees of a device, after TLS on loopback; `ssl.SSLError` if either side says no."""
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(*shown_by_server)
    server.load_verify_locations(authority_of_server)
    server.verify_mode = ssl.CERT_REQUIRED
    client = ssl.create_default_context(cafile=authority_of_device)
    if shown_by_device is not None:
        client.load_cert_chain(shown_by_device)

    def serve(listening):
        connection, _ = listening.accept()
        connection.settimeout(HANGS)
        with closing(connection), server.wrap_socket(connection, server_side=True) as secure:
            secure.sendall(b"welcome")
            return secure.getpeercert(binary_form=True)

    with socket.create_server(("127.0.0.1", 0)) as listening, ThreadPoolExecutor(1) as pool:
        listening.settimeout(HANGS)
        seen = pool.submit(serve, listening)
        try:
            plain = socket.create_connection(listening.getsockname(), HANGS)
            with closing(plain), client.wrap_socket(plain, server_hostname=host) as secure:
                secure.recv(7)
        finally:
            # The server's verdict is the one that counts; a device may only see that the connection was cut.
            refused = seen.exception()
        if refused is not None:
            raise refused
        return seen.result()


def between(server, device_file, trusted_by_device=None, trusted_by_server=None, host="localhost"):
    shown = (server / "server" / "server.crt", server / "server" / "server.key")
    return handshake(
        shown,
        (trusted_by_server or server) / "server" / "ca.crt",
        device_file,
        (trusted_by_device or server) / "server" / "ca.crt",
        host,
    )


class TestHandshake:
    @pytest.mark.parametrize("host", HOSTS)
    def test_ours_are_let_in_and_told_apart(self, original, host):
        seen = ssl.DER_cert_to_PEM_cert(between(original, device(original), host=host)).encode()
        assert Identities(original).identify(seen)[:2] == ("ward-3", 7)
        seen = ssl.DER_cert_to_PEM_cert(between(original, device(original, "device-0"), host=host)).encode()
        assert Identities(original).identify(seen)[:2] == ("device-0", 0)

    def test_a_device_of_another_authority_is_refused(self, original, other):
        with pytest.raises((ssl.SSLError, ConnectionError)):
            between(original, device(other))

    def test_a_device_without_a_certificate_is_refused(self, original):
        with pytest.raises((ssl.SSLError, ConnectionError)):
            between(original, None)

    def test_a_server_of_another_authority_is_refused(self, original, other):
        with pytest.raises(ssl.SSLCertVerificationError):
            between(other, device(original), trusted_by_device=original, trusted_by_server=original)

    def test_a_server_under_another_name_is_refused(self, original):
        with pytest.raises(ssl.SSLCertVerificationError, match="mismatch"):
            between(original, device(original), host="example.org")

    def test_no_device_can_stand_in_for_the_server(self, folder):
        Authority.open(folder).enrol("localhost")  # its name is what a device looks for
        authority = folder / "server" / "ca.crt"
        with pytest.raises(ssl.SSLCertVerificationError, match="purpose"):
            handshake((device(folder, "localhost"),), authority, device(folder), authority)

    def test_the_server_cannot_stand_in_for_a_device(self, folder):
        both = folder / "both.pem"
        both.write_bytes(b"".join((folder / "server" / f"server.{kind}").read_bytes() for kind in ("crt", "key")))
        with pytest.raises((ssl.SSLError, ConnectionError)):
            between(folder, both)


class TestOverGrpc:
    """The transport's own view: the text that it hands on is what `identify` reads."""

    @staticmethod
    def ask(shown_by_server, authority_of_server, credential, host="localhost"):
        identities = []

        class Handler(grpc.GenericRpcHandler):
            def service(self, details):
                return grpc.unary_unary_rpc_method_handler(
                    lambda request, context: identities.append(context.auth_context()["x509_pem_cert"][0]) or b""
                )

        server = grpc.server(ThreadPoolExecutor(1))
        server.add_generic_rpc_handlers((Handler(),))
        both = grpc.ssl_server_credentials([shown_by_server], authority_of_server, require_client_auth=True)
        port = server.add_secure_port("127.0.0.1:0", both)
        server.start()
        trust = grpc.ssl_channel_credentials(credential.authority, credential.key, credential.certificate)
        named = (("grpc.ssl_target_name_override", host), ("grpc.enable_retries", 0))
        try:
            with grpc.secure_channel(f"127.0.0.1:{port}", trust, options=named) as channel:
                channel.unary_unary("/hush/who")(b"", timeout=HANGS)
        finally:
            server.stop(None).wait()
        return identities[0]

    def test_ours_are_let_in(self, original):
        server, shown = ServerCredential.read(original), DeviceCredential.read(device(original))
        seen = self.ask((server.key, server.certificate), server.authority, shown)
        assert Identities(original).identify(seen)[:2] == ("ward-3", 7)

    def test_others_are_not(self, original, other):
        server, shown = ServerCredential.read(original), DeviceCredential.read(device(other))
        with pytest.raises(grpc.RpcError):
            self.ask((server.key, server.certificate), server.authority, shown._replace(authority=server.authority))

    def test_no_device_can_stand_in_for_the_server(self, folder):
        Authority.open(folder).enrol("localhost")
        posing = DeviceCredential.read(device(folder, "localhost"))
        with pytest.raises(grpc.RpcError):
            self.ask((posing.key, posing.certificate), posing.authority, DeviceCredential.read(device(folder)))


class TestCertificates:
    """By cryptography's own verifier, and field by field."""

    def test_a_device_is_verified(self, original, other):
        leaf, root = certificate_of(device(original)), certificate_of(original / "authority" / "ca.crt")
        builder = verification.PolicyBuilder().store(verification.Store([root]))
        verified = builder.build_client_verifier().verify(leaf, [])
        assert [name.value for name in verified.subjects] == ["hush://client/7"]
        with pytest.raises(verification.VerificationError):
            builder.build_client_verifier().verify(certificate_of(device(other)), [])
        with pytest.raises(verification.VerificationError):
            builder.build_server_verifier(x509.DNSName("localhost")).verify(leaf, [])

    def test_a_server_is_verified(self, original):
        leaf = certificate_of(original / "server" / "server.crt")
        store = verification.Store([certificate_of(original / "authority" / "ca.crt")])
        builder = verification.PolicyBuilder().store(store)
        assert builder.build_server_verifier(x509.DNSName("localhost")).verify(leaf, [])
        assert builder.build_server_verifier(x509.IPAddress(ipaddress.ip_address("127.0.0.1"))).verify(leaf, [])
        with pytest.raises(verification.VerificationError):
            builder.build_server_verifier(x509.DNSName("example.org")).verify(leaf, [])

    def test_what_the_authority_says_of_itself(self, original):
        root = certificate_of(original / "authority" / "ca.crt")
        limits = root.extensions.get_extension_for_class(x509.BasicConstraints)
        assert (limits.critical, limits.value.ca, limits.value.path_length) == (True, True, 0)
        assert root.subject.rfc4514_string() == "CN=hush"
        assert isinstance(root.public_key().curve, ec.SECP256R1)
        assert isinstance(root.signature_hash_algorithm, hashes.SHA256)

    def test_what_a_device_says(self, original):
        leaf = certificate_of(device(original))
        assert leaf.subject.rfc4514_string() == "CN=ward-3"
        limits = leaf.extensions.get_extension_for_class(x509.BasicConstraints)
        assert (limits.critical, limits.value.ca) == (True, False)
        assert list(leaf.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value) == [
            ExtendedKeyUsageOID.CLIENT_AUTH
        ]
        # A day before it was made to a year after.
        assert leaf.not_valid_after_utc - leaf.not_valid_before_utc == timedelta(days=366)

    def test_none_outlives_its_authority(self, folder, clock):
        clock(15 * 365)
        with pytest.raises(ValueError, match="the authority itself ends on"):
            Authority.open(folder).enrol("late", days=10 * 365)
        assert [entry.name for entry in Authority.open(folder).devices()] == ["ward-3", "device-0"]

    @pytest.mark.parametrize("days", [0, -1, 3651, 10**30, 1.5, True, "9"])
    def test_days(self, folder, days):
        with pytest.raises(ValueError, match="days must be a whole number from 1 to 3650, found"):
            Authority.open(folder).enrol("late", days=days)

    @pytest.mark.parametrize(
        "host",
        [
            "",
            "a b",
            "fl.example.org:443",
            "127.0.0.1:1",
            "*.org",
            "999.1.1.1",
            "a..b",
            "-a",
            "ü.de",
            "a\n",
            "a" * 64,
            5,
        ],
    )
    def test_hosts(self, tmp_path, host):
        with pytest.raises(ValueError, match="a host must be a name such as"):
            Authority.create(tmp_path / "new", [host])
        assert not (tmp_path / "new").exists()

    def test_hosts_are_many(self, tmp_path):
        for hosts in ([], "localhost"):
            with pytest.raises(ValueError, match="hosts must be one or more"):
                Authority.create(tmp_path / "new", hosts)
        Authority.create(tmp_path / "new", ["fl.example.org", "hush_server", "::1"])
        names = certificate_of(tmp_path / "new/server/server.crt").extensions.get_extension_for_class(
            x509.SubjectAlternativeName
        )
        assert names.value.get_values_for_type(x509.DNSName) == ["fl.example.org", "hush_server"]
        assert list(map(str, names.value.get_values_for_type(x509.IPAddress))) == ["::1"]


class TestNames:
    ALLOWED = frozenset(string.ascii_letters + string.digits + "._-")

    @given(st.text(max_size=70) | st.text(sorted(ALLOWED | {"/", "\\", "\0", "\n"}), max_size=70))
    def test_a_name_is_one_file_in_its_folder_or_refused(self, name):
        fine = 0 < len(name) <= 64 and set(name) <= self.ALLOWED and name[0] not in "._-"
        if not fine:
            with pytest.raises(ValueError, match="a device's name must be"):
                certificates.check_name(name)
            return
        certificates.check_name(name)
        path = Path("/folder/devices") / f"{name}.pem"
        assert os.path.normpath(path) == str(path)
        assert path.parent == Path("/folder/devices")

    @pytest.mark.parametrize(
        "name", ["", ".", "..", "../x", "/etc/passwd", "a/b", "a\\b", "a\0", "a\n", ".x", "-x", "ward 3", "é", "x" * 65]
    )
    def test_tricks(self, folder, name):
        before = sorted(folder.rglob("*"))
        with pytest.raises(ValueError, match="a device's name must be 1 to 64 letters"):
            Authority.open(folder).enrol(name)
        assert [path for path in sorted(folder.rglob("*")) if path not in before] == []

    def test_the_longest(self, folder):
        assert DeviceCredential.read(Authority.open(folder).enrol("x" * 64)).name == "x" * 64


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

    def test_a_new_certificate_for_the_server(self, folder):
        before = ServerCredential.read(folder)
        Authority.open(folder).renew_server(["example.org"], days=3)
        after = ServerCredential.read(folder)
        assert before.authority == after.authority
        assert before.key != after.key
        assert between(folder, device(folder), host="example.org")
        with pytest.raises(ssl.SSLCertVerificationError, match="mismatch"):
            between(folder, device(folder), host="localhost")

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

    def test_each_machine_gets_what_it_needs_and_no_more(self, original):
        keys = {path.name: path.read_bytes().count(b"PRIVATE KEY-----\n") // 2 for path in original.rglob("*.*")}
        assert [name for name, count in sorted(keys.items()) if count] == [
            "ca.key",
            "device-0.pem",
            "server.key",
            "ward-3.pem",
        ]
        assert set(keys.values()) == {0, 1}
        assert sorted(path.name for path in (original / "server").iterdir()) == [
            "ca.crt",
            "revoked.json",
            "server.crt",
            "server.key",
        ]


class TestServerCredential:
    def test_from_either_folder(self, original):
        assert ServerCredential.read(original) == ServerCredential.read(str(original / "server"))
        assert ServerCredential.read(original).key == (original / "server" / "server.key").read_bytes()

    @pytest.mark.parametrize("name", ["server.key", "server.crt", "ca.crt"])
    def test_missing_or_damaged(self, folder, name):
        path = folder / "server" / name
        path.write_bytes(b"nothing")
        with pytest.raises(ValueError, match=rf"{name} cannot be used"):
            ServerCredential.read(folder)
        path.unlink()
        with pytest.raises(ValueError, match=rf"cannot read \S+{name}: No such file"):
            ServerCredential.read(folder)

    @pytest.mark.parametrize(
        ("name", "said"),
        [("server.key", "not that of the cert"), ("server.crt", "not that"), ("ca.crt", "not of this")],
    )
    def test_of_another(self, folder, other, name, said):
        shutil.copy(other / "server" / name, folder / "server" / name)
        with pytest.raises(ValueError, match=said):
            ServerCredential.read(folder)

    def test_a_device_is_no_server(self, folder):
        credential = DeviceCredential.read(device(folder))
        (folder / "server" / "server.key").write_bytes(credential.key)
        (folder / "server" / "server.crt").write_bytes(credential.certificate)
        with pytest.raises(ValueError, match="not that of a server"):
            ServerCredential.read(folder)

    def test_time(self, original, clock):
        clock(366)
        with pytest.raises(ValueError, match=r"server.crt expired on 20\d\d-.* --host HOST makes a new one"):
            ServerCredential.read(original)
        clock(-2)
        with pytest.raises(ValueError, match=r"is not valid before .* clock of this machine seems wrong"):
            ServerCredential.read(original)


class TestDeviceCredential:
    def test_one_file(self, original):
        credential = DeviceCredential.read(str(device(original)))
        assert credential[3:5] == ("ward-3", 7)
        assert credential.certificate + credential.key + credential.authority == device(original).read_bytes()
        assert credential.authority == (original / "authority" / "ca.crt").read_bytes()

    def test_the_order_of_keys_does_not_matter(self, folder):
        credential = DeviceCredential.read(device(folder))
        text = credential.key + b"a remark\r\n" + (credential.certificate + credential.authority)
        device(folder).write_bytes(text.replace(b"\n", b"\r\n"))
        assert DeviceCredential.read(device(folder))[3:] == credential[3:]

    def test_missing_parts(self, folder):
        whole = DeviceCredential.read(device(folder))
        for parts, found in (
            ((whole.certificate, whole.authority), "2 certificates and 0 private keys"),
            ((whole.certificate, whole.key), "1 certificates and 1 private keys"),
            ((), "0 certificates and 0 private keys"),
        ):
            device(folder).write_bytes(b"".join(parts))
            with pytest.raises(ValueError, match=f"ward-3.pem must hold .*, found {found}"):
                DeviceCredential.read(device(folder))
        device(folder).unlink()
        with pytest.raises(ValueError, match=r"cannot read \S+ward-3.pem: No such file"):
            DeviceCredential.read(device(folder))

    def test_parts_of_another(self, folder, other):
        ours, theirs = (DeviceCredential.read(device(each)) for each in (folder, other))
        for parts, said in (
            ((ours.certificate, theirs.key, ours.authority), "the private key is not that of the certificate"),
            ((ours.certificate, ours.key, theirs.authority), "not of this authority"),
            ((ours.authority, ours.key, ours.authority), "not that of a device"),
            ((ServerCredential.read(folder).certificate, ours.key, ours.authority), "not that of a device"),
        ):
            device(folder).write_bytes(b"".join(parts))
            with pytest.raises(ValueError, match=f"ward-3.pem cannot be used: .*{said}"):
                DeviceCredential.read(device(folder))

    def test_every_cut_is_refused(self, folder):
        whole = device(folder).read_bytes()
        for length in range(0, len(whole) - 1, 97):
            device(folder).write_bytes(whole[:length])
            with pytest.raises(ValueError, match=r"ward-3\.pem"):
                DeviceCredential.read(device(folder))

    def test_time(self, original, clock):
        clock(366)
        with pytest.raises(ValueError, match=r"of ward-3 in \S+ expired on 20\d\d-\d\d-\d\d \d\d:\d\d UTC"):
            DeviceCredential.read(device(original))
        clock(-2)
        with pytest.raises(ValueError, match=r"is not valid before .* clock of this machine seems wrong"):
            DeviceCredential.read(device(original))
        clock(-0.9)  # clocks differ
        assert DeviceCredential.read(device(original)).client == 7


class TestIdentities:
    def test_the_number_is_the_certificates(self, folder):
        identities = Identities(folder)
        serial = certificate_of(device(folder)).serial_number
        registry = folder / "authority" / "registry.json"
        registry.write_text(registry.read_text().replace('"client": 7', '"client": 8'))
        assert identities.identify(pem(folder)) == Identity("ward-3", 7, serial)

    def test_revocation_needs_no_restart(self, folder):
        identities, ours = Identities(folder / "server"), pem(folder)
        assert identities.identify(ours).client == 7
        Authority.open(folder).revoke("ward-3")
        with pytest.raises(Stranger, match="the certificate of ward-3 was revoked"):
            identities.identify(ours)
        assert identities.identify(pem(folder, "device-0")).client == 0
        Authority.open(folder).enrol("ward-3")
        assert identities.identify(pem(folder)).client == 7
        with pytest.raises(Stranger, match="revoked"):
            identities.identify(ours)

    def test_an_older_list_takes_nothing_back(self, folder):
        path = folder / "server" / "revoked.json"
        older = path.read_bytes()
        Authority.open(folder).revoke("ward-3")
        identities = Identities(folder)
        path.write_bytes(older)
        with pytest.raises(Stranger, match="revoked"):
            identities.identify(pem(folder))

    @pytest.mark.parametrize("known", [False, True])
    def test_a_list_that_cannot_be_read_stops_everybody(self, folder, other, known):
        path, ours = folder / "server" / "revoked.json", pem(folder)
        Authority.open(folder).revoke("device-0")
        whole = path.read_bytes()
        identities = Identities(folder)
        if known:
            identities.identify(ours)
        serial = json.loads(whole)["revoked"][0]
        altered = whole.replace(serial.encode(), f"{int(serial, 16) ^ 1:x}".encode())
        emptied = json.dumps(json.loads(whole) | {"revoked": []}).encode()
        theirs = (other / "server" / "revoked.json").read_bytes()
        cuts = [whole[:length] for length in range(0, len(whole) - 2, 9)]
        for text in (altered, emptied, theirs, b"{}", b"[]", b"null", b"\xff", None, *cuts):
            path.unlink() if text is None else path.write_bytes(text)
            for ask in (lambda: identities.identify(ours), lambda: Identities(folder)):
                with pytest.raises(ValueError, match="nobody is let in before") as refused:
                    ask()
                assert not isinstance(refused.value, Stranger)  # no word about the device
        path.write_bytes(whole)
        assert identities.identify(ours).client == 7

    def test_not_a_device(self, folder, other):
        identities = Identities(folder)
        for text, said in (
            (ServerCredential.read(folder).certificate, "not that of a device"),
            (ServerCredential.read(folder).authority, "not that of a device"),
            (pem(other), "not of this authority"),
            (b"", "PEM"),
            (b"nothing", "PEM"),
        ):
            for _ in range(2):  # no refusal is remembered as an acceptance
                with pytest.raises(Stranger, match=said):
                    identities.identify(text)

    @pytest.mark.parametrize(
        "names",
        [
            [],
            [x509.DNSName("localhost")],
            [x509.UniformResourceIdentifier("hush://client/1"), x509.UniformResourceIdentifier("hush://client/2")],
            *(
                [x509.UniformResourceIdentifier(uri)]
                for uri in ("hush://client/", "hush://client/-1", "hush://client/01", "hush://client/1/2")
            ),
            [x509.UniformResourceIdentifier(f"hush://client/{2**31}")],
            [x509.UniformResourceIdentifier("http://client/1")],
        ],
    )
    def test_without_our_number(self, original, names):
        """The authority's own signature, under what `enrol` never writes."""
        signer = Authority.open(original)._signer
        made = certificates._signed(signer, "ward-3", ExtendedKeyUsageOID.CLIENT_AUTH, names, 1)
        with pytest.raises(Stranger, match="must hold one client's number"):
            Identities(original).identify(certificates.certificate_pem(made.certificate))

    def test_expired_meanwhile(self, original, clock):
        identities = Identities(original)
        assert identities.identify(pem(original)).client == 7
        ours = pem(original)
        clock(366)
        with pytest.raises(Stranger, match="the certificate of ward-3 expired on"):
            identities.identify(ours)

    def test_from_many_threads(self, folder):
        """While the list changes, everybody is told what is true of themselves, and nobody is let in after it."""
        identities, names = Identities(folder), ("ward-3", "device-0")
        texts = {name: pem(folder, name) for name in names}
        revoked, wrong = threading.Event(), []

        def ask(name):
            for _ in range(300):
                over = revoked.is_set()
                try:
                    if identities.identify(texts[name]).name != name or (over and name == "ward-3"):
                        wrong.append(name)
                except Stranger:
                    if name != "ward-3":
                        wrong.append(name)

        threads = [threading.Thread(target=ask, args=(name,)) for name in 2 * names]
        for thread in threads:
            thread.start()
        Authority.open(folder).revoke("ward-3")
        revoked.set()
        for thread in threads:
            thread.join()
        assert wrong == []
        with pytest.raises(Stranger):
            identities.identify(texts["ward-3"])
