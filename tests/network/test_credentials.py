"""What a server and a device read of their own files, and what they say of those that will not do."""

import shutil

import pytest

from hush.network.credentials import DeviceCredential, ServerCredential


def device(folder, name="ward-3"):
    return folder / "devices" / f"{name}.pem"


class TestServerCredential:
    def test_from_either_folder(self, enrolment):
        assert ServerCredential.read(enrolment) == ServerCredential.read(str(enrolment / "server"))
        assert ServerCredential.read(enrolment).key == (enrolment / "server" / "server.key").read_bytes()

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

    def test_time(self, enrolment, clock):
        clock(366)
        with pytest.raises(ValueError, match=r"server.crt expired on 20\d\d-.* --host HOST makes a new one"):
            ServerCredential.read(enrolment)
        clock(-2)
        with pytest.raises(ValueError, match=r"is not valid before .* clock of this machine seems wrong"):
            ServerCredential.read(enrolment)


class TestDeviceCredential:
    def test_one_file(self, enrolment):
        credential = DeviceCredential.read(str(device(enrolment)))
        assert credential[3:5] == ("ward-3", 7)
        assert credential.certificate + credential.key + credential.authority == device(enrolment).read_bytes()
        assert credential.authority == (enrolment / "authority" / "ca.crt").read_bytes()

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

    def test_time(self, enrolment, clock):
        clock(366)
        with pytest.raises(ValueError, match=r"of ward-3 in \S+ expired on 20\d\d-\d\d-\d\d \d\d:\d\d UTC"):
            DeviceCredential.read(device(enrolment))
        clock(-2)
        with pytest.raises(ValueError, match=r"is not valid before .* clock of this machine seems wrong"):
            DeviceCredential.read(device(enrolment))
        clock(-0.9)  # clocks differ
        assert DeviceCredential.read(device(enrolment)).client == 7
