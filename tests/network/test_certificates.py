"""What certificates say, by cryptography's own verifier and field by field; and what may stand in them."""

import ipaddress
import os
import string
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509 import verification
from cryptography.x509.oid import ExtendedKeyUsageOID
from hypothesis import given
from hypothesis import strategies as st

from hush.network import certificates
from hush.network.credentials import Authority, DeviceCredential


def device(folder, name="ward-3"):
    return folder / "devices" / f"{name}.pem"


def certificate_of(path):
    return x509.load_pem_x509_certificate(path.read_bytes())


class TestCertificates:
    """By cryptography's own verifier, and field by field."""

    def test_a_device_is_verified(self, enrolment, other):
        leaf, root = certificate_of(device(enrolment)), certificate_of(enrolment / "authority" / "ca.crt")
        builder = verification.PolicyBuilder().store(verification.Store([root]))
        verified = builder.build_client_verifier().verify(leaf, [])
        assert [name.value for name in verified.subjects] == ["hush://client/7"]
        with pytest.raises(verification.VerificationError):
            builder.build_client_verifier().verify(certificate_of(device(other)), [])
        with pytest.raises(verification.VerificationError):
            builder.build_server_verifier(x509.DNSName("localhost")).verify(leaf, [])

    def test_a_server_is_verified(self, enrolment):
        leaf = certificate_of(enrolment / "server" / "server.crt")
        store = verification.Store([certificate_of(enrolment / "authority" / "ca.crt")])
        builder = verification.PolicyBuilder().store(store)
        assert builder.build_server_verifier(x509.DNSName("localhost")).verify(leaf, [])
        assert builder.build_server_verifier(x509.IPAddress(ipaddress.ip_address("127.0.0.1"))).verify(leaf, [])
        with pytest.raises(verification.VerificationError):
            builder.build_server_verifier(x509.DNSName("example.org")).verify(leaf, [])

    def test_what_the_authority_says_of_itself(self, enrolment):
        root = certificate_of(enrolment / "authority" / "ca.crt")
        limits = root.extensions.get_extension_for_class(x509.BasicConstraints)
        assert (limits.critical, limits.value.ca, limits.value.path_length) == (True, True, 0)
        assert root.subject.rfc4514_string() == "CN=hush"
        assert isinstance(root.public_key().curve, ec.SECP256R1)
        assert isinstance(root.signature_hash_algorithm, hashes.SHA256)

    def test_what_a_device_says(self, enrolment):
        leaf = certificate_of(device(enrolment))
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
