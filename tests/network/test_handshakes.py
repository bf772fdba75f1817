"""Who is let in, by other people's TLS: Python's ssl, and gRPC."""

import socket
import ssl
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import grpc
import pytest

from hush.network.credentials import Authority, DeviceCredential, ServerCredential
from hush.network.identities import Identities

HOSTS = ["localhost", "127.0.0.1"]
HANGS = 30  # seconds after which a handshake is given up


def device(folder, name="ward-3"):
    return folder / "devices" / f"{name}.pem"


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
    def test_ours_are_let_in_and_told_apart(self, enrolment, host):
        seen = ssl.DER_cert_to_PEM_cert(between(enrolment, device(enrolment), host=host)).encode()
        assert Identities(enrolment).identify(seen)[:2] == ("ward-3", 7)
        seen = ssl.DER_cert_to_PEM_cert(between(enrolment, device(enrolment, "device-0"), host=host)).encode()
        assert Identities(enrolment).identify(seen)[:2] == ("device-0", 0)

    def test_a_device_of_another_authority_is_refused(self, enrolment, other):
        with pytest.raises((ssl.SSLError, ConnectionError)):
            between(enrolment, device(other))

    def test_a_device_without_a_certificate_is_refused(self, enrolment):
        with pytest.raises((ssl.SSLError, ConnectionError)):
            between(enrolment, None)

    def test_a_server_of_another_authority_is_refused(self, enrolment, other):
        with pytest.raises(ssl.SSLCertVerificationError):
            between(other, device(enrolment), trusted_by_device=enrolment, trusted_by_server=enrolment)

    def test_a_server_under_another_name_is_refused(self, enrolment):
        with pytest.raises(ssl.SSLCertVerificationError, match="mismatch"):
            between(enrolment, device(enrolment), host="example.org")

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

    def test_a_new_certificate_for_the_server(self, folder):
        before = ServerCredential.read(folder)
        Authority.open(folder).renew_server(["example.org"], days=3)
        after = ServerCredential.read(folder)
        assert before.authority == after.authority
        assert before.key != after.key
        assert between(folder, device(folder), host="example.org")
        with pytest.raises(ssl.SSLCertVerificationError, match="mismatch"):
            between(folder, device(folder), host="localhost")


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

    def test_ours_are_let_in(self, enrolment):
        server, shown = ServerCredential.read(enrolment), DeviceCredential.read(device(enrolment))
        seen = self.ask((server.key, server.certificate), server.authority, shown)
        assert Identities(enrolment).identify(seen)[:2] == ("ward-3", 7)

    def test_others_are_not(self, enrolment, other):
        server, shown = ServerCredential.read(enrolment), DeviceCredential.read(device(other))
        with pytest.raises(grpc.RpcError):
            self.ask((server.key, server.certificate), server.authority, shown._replace(authority=server.authority))

    def test_no_device_can_stand_in_for_the_server(self, folder):
        Authority.open(folder).enrol("localhost")
        posing = DeviceCredential.read(device(folder, "localhost"))
        with pytest.raises(grpc.RpcError):
            self.ask((posing.key, posing.certificate), posing.authority, DeviceCredential.read(device(folder)))
