"""Whose word counts: certificates of our authority with the right number, and signatures for one purpose."""

import itertools

import pytest
from by_hand import DIGEST
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, utils
from summing import authority, credential, verifier

from hush.network.certificates import new_authority, new_device, new_server
from hush.network.credentials import DeviceCredential
from hush.network.secure_sum import Credential, Refused, Verifier, signing


def der(certificate):
    return certificate.public_bytes(serialization.Encoding.DER)


def signed_by(client, content=b"content", purpose=signing.KEYS, digest=DIGEST):
    return credential(client).signed(purpose, digest, client, content)


def check(client, signature, content=b"content", purpose=signing.KEYS, digest=DIGEST):
    key = verifier().key_of(credential(client).certificate, client)
    signing.check_signature(key, signature, purpose, digest, client, content)


def test_a_certificate_has_the_key_of_its_client():
    found = verifier().key_of(credential(3).certificate, 3)
    assert found.public_numbers() == credential(3).key.public_key().public_numbers()


def test_the_number_counts():
    with pytest.raises(Refused, match="client 4 shows the certificate of client 3"):
        verifier().key_of(credential(3).certificate, 4)


@pytest.mark.parametrize("whose", ["another authority", "a server", "the authority", "nobody", "rubbish", "cut short"])
def test_certificates_that_do_not_count(whose):
    found = {
        "another authority": der(new_device(new_authority(), "device-3", 3, 30).certificate),
        "a server": der(new_server(authority(), ["localhost"], 30).certificate),
        "the authority": der(authority().certificate),
        "nobody": b"",
        "rubbish": b"\x30\x03abc",
        "cut short": credential(3).certificate[:-1],
    }[whose]
    with pytest.raises(Refused, match="client 3 shows a certificate that does not count here"):
        verifier().key_of(found, 3)


@pytest.mark.filterwarnings("ignore:Parsed a serial number which wasn't positive")
def test_a_flipped_bit_of_a_certificate():
    """Of what the authority signed, every bit counts. Around it there is one way to write the same signature otherwise.

    A string of bits says how many of its last bits are not meant. Where a signature ends in zeros, that number can be
    another and the signature is the same: who can do so still shows just what the authority signed.
    """
    certificate = credential(3).certificate
    fresh, signed = Verifier(authority().certificate), x509.load_der_x509_certificate(certificate).tbs_certificate_bytes
    begin = certificate.index(signed)
    for place, bit in itertools.product(range(len(certificate)), range(8)):
        forged = certificate[:place] + bytes([certificate[place] ^ 1 << bit]) + certificate[place + 1 :]
        try:
            fresh.key_of(forged, 3)
        except Refused:
            continue
        assert not begin <= place < begin + len(signed)
        assert x509.load_der_x509_certificate(forged).tbs_certificate_bytes == signed


def test_an_expired_certificate(clock):
    clock(31)
    with pytest.raises(Refused, match="the certificate of client 3 expired on"):
        verifier().key_of(credential(3).certificate, 3)
    clock(-3)
    with pytest.raises(Refused, match="the certificate of client 3 is not valid before"):
        verifier().key_of(credential(3).certificate, 3)


def test_a_revoked_certificate():
    certificate = credential(3).certificate
    serial = x509.load_der_x509_certificate(certificate).serial_number
    with pytest.raises(Refused, match="the certificate of client 3 was revoked"):
        Verifier(authority().certificate, [serial]).key_of(certificate, 3)


def test_a_signature_is_ecdsa_over_purpose_sum_client_and_content():
    signature = signed_by(3)
    assert len(signature) == signing.SIGNATURE_BYTES
    plain = utils.encode_dss_signature(int.from_bytes(signature[:32]), int.from_bytes(signature[32:]))
    content = b"hush secure sum 1 " + bytes([11]) + b"signed keys" + DIGEST + bytes([3, 0, 0, 0]) + b"content"
    credential(3).key.public_key().verify(plain, content, ec.ECDSA(hashes.SHA256()))
    check(3, signature)


def test_a_published_signature(monkeypatch):
    """RFC 6979, A.2.5: P-256 with SHA-256 under "sample"; what it is bound to here is left away for that."""
    monkeypatch.setattr(signing, "purposed", lambda *bound: b"")
    point = [
        0x60FED4BA255A9D31C961EB74C6356D68C049B8923B61FA6CE669622E60F29FB6,
        0x7903FE1008B8BC99A41AE9E95628BC64F2F1B20C2D7E9F5177A3C294D4462299,
    ]
    key = ec.EllipticCurvePublicNumbers(*point, ec.SECP256R1()).public_key()
    signature = bytes.fromhex(
        "efd48b2aacb6a8fd1140dd9cd45e81d69d2c877b56aaf991c34d0ea84eaf3716"
        "f7cb1c942d657c41d436c7a1b6e29f65f3e900dbb9aff4064dc4ab2f843acda8"
    )
    signing.check_signature(key, signature, signing.KEYS, DIGEST, 3, b"sample")
    with pytest.raises(Refused, match="not of client 3"):
        signing.check_signature(key, signature, signing.KEYS, DIGEST, 3, b"simple")


def test_a_signature_means_nothing_elsewhere():
    signature = signed_by(3)
    for changed in ({"content": b"Content"}, {"purpose": signing.DEALERS}, {"digest": DIGEST[::-1]}):
        with pytest.raises(Refused, match="a signature that is not of client 3"):
            check(3, signature, **changed)
    with pytest.raises(Refused, match="a signature that is not of client 5"):
        check(5, signature)


@pytest.mark.parametrize("signature", [bytes(64), b"\xff" * 64])
def test_what_is_no_signature(signature):
    with pytest.raises(Refused, match="not of client 3"):
        check(3, signature)


def test_flipped_bits_of_a_signature():
    signature = signed_by(3)
    for place in range(64):
        with pytest.raises(Refused, match="not of client 3"):
            check(3, signature[:place] + bytes([signature[place] ^ 1]) + signature[place + 1 :])


def test_the_credential_of_an_enrolled_device(enrolment):
    device = DeviceCredential.read(enrolment / "devices" / "ward-3.pem")
    found = Credential.read(device)
    key = found.verifier.key_of(found.certificate, 7)
    signing.check_signature(key, found.signed(signing.KEYS, DIGEST, 7, b"x"), signing.KEYS, DIGEST, 7, b"x")
    serial = x509.load_der_x509_certificate(found.certificate).serial_number
    with pytest.raises(Refused, match="was revoked"):
        Credential.read(device, [serial]).verifier.key_of(found.certificate, 7)
