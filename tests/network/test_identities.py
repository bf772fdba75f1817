"""Who is on the other end: revoked, expired, of somebody else, or ours."""

import json
import threading

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from hush.network import certificates
from hush.network.credentials import Authority, DeviceCredential, ServerCredential
from hush.network.identities import Identities, Identity, Stranger


def device(folder, name="ward-3"):
    return folder / "devices" / f"{name}.pem"


def certificate_of(path):
    return x509.load_pem_x509_certificate(path.read_bytes())


def pem(folder, name="ward-3"):
    return DeviceCredential.read(device(folder, name)).certificate


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
    def test_without_our_number(self, enrolment, names):
        """The authority's own signature, under what `enrol` never writes."""
        signer = Authority.open(enrolment)._signer
        made = certificates._signed(signer, "ward-3", ExtendedKeyUsageOID.CLIENT_AUTH, names, 1)
        with pytest.raises(Stranger, match="must hold one client's number"):
            Identities(enrolment).identify(certificates.certificate_pem(made.certificate))

    def test_expired_meanwhile(self, enrolment, clock):
        identities = Identities(enrolment)
        assert identities.identify(pem(enrolment)).client == 7
        ours = pem(enrolment)
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
