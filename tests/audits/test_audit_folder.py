"""The folder of an audit: what is finished stays, and other settings are refused."""

import numpy as np
import pytest
from made_up_findings import NOTHING, finding

import hush
from hush.audits.folder import AuditFolder
from hush.audits.keeping import packed, unpacked
from hush.store import Unreadable
from hush.store.audits import ANSWER, IDENTITY, MEASURED
from hush.store.fingerprint import fingerprint

ARRAYS = {"seen": np.arange(6.0).reshape(2, 3), "count": np.array(7)}


@pytest.fixture
def identity(quadratic):
    def made(lr=0.1, **run):
        return fingerprint(hush.fedavg(clients=2, steps=1, lr=lr), quadratic, {"seed": 0} | run)

    return made


@pytest.fixture
def folder(tmp_path, identity):
    files = AuditFolder(tmp_path)
    files.begin(identity())
    return files


def test_what_is_measured_is_there_again(folder):
    assert folder.of("it").get("first") is None
    folder.of("it").put("first", ARRAYS)
    folder.of("it").put("second", {"seen": np.zeros(1)})
    found = AuditFolder(folder.path).of("it").get("first")
    assert set(found) == set(ARRAYS)
    assert all(np.array_equal(found[name], ARRAYS[name]) for name in ARRAYS)


def test_attacks_do_not_meet(folder):
    folder.of("it").put("first", ARRAYS)
    assert folder.of("another").get("first") is None
    folder.of("another").put("first", ARRAYS)
    folder.of("it").put("end", {"bound": np.array(1.0)})
    folder.of("it").keep_only("end")
    assert folder.of("it").get("first") is None
    assert folder.of("it").get("end")["bound"] == 1.0
    assert folder.of("another").get("first") is not None


def test_a_finding_comes_back_whole():
    for before in (finding(), finding(held_to=NOTHING, estimate=None)):
        after = unpacked(packed(before))
        assert after.bounds == before.bounds
        assert (after.method, after.adversary, after.confidence) == (before.method, before.adversary, before.confidence)
        assert (after.estimate, after.words, after.seconds) == (before.estimate, before.words, before.seconds)
        assert (after.claim.epsilon, after.claim.words) == (before.claim.epsilon, before.claim.words)
        assert all(np.array_equal(one, other) for one, other in zip(after.scores, before.scores, strict=True))
        assert after.refuted == before.refuted


def test_it_goes_on_with_the_same_and_with_nothing_else(folder, identity):
    folder.of("it").put("first", ARRAYS)
    folder.begin(identity(), resume=True)
    assert folder.of("it").get("first") is not None
    with pytest.raises(ValueError, match=r"holds another audit: different are local\.lr \(0\.1 before, 0\.2 now\)"):
        folder.begin(identity(lr=0.2), resume=True)
    with pytest.raises(ValueError, match="seed"):
        folder.begin(identity(seed=1), resume=True)


def test_it_is_replaced_only_where_that_was_asked_for(folder, identity):
    folder.of("it").put("first", ARRAYS)
    with pytest.raises(ValueError, match="already holds an audit; resume it, replace it"):
        folder.begin(identity())
    folder.begin(identity(lr=0.2), replace=True)
    assert folder.of("it").get("first") is None
    assert not list(folder.path.glob(MEASURED))


def test_what_no_audit_wrote_is_left_alone(tmp_path, identity):
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(ValueError, match=r"holds thesis\.tex, which no audit wrote"):
        AuditFolder(tmp_path).begin(identity(), replace=True)
    (tmp_path / "new").mkdir()
    with pytest.raises(ValueError, match="holds no audit to resume"):
        AuditFolder(tmp_path / "new").begin(identity(), resume=True)
    assert (tmp_path / "thesis.tex").read_text() == "years of work"


def test_a_damaged_measurement_is_named(folder):
    folder.of("it").put("first", ARRAYS)
    (path,) = folder.path.glob(MEASURED)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(Unreadable, match=path.name):
        folder.of("it").get("first")
    folder.of("it").put("second", ARRAYS)
    (other,) = set(folder.path.glob(MEASURED)) - {path}
    other.replace(path)
    with pytest.raises(Unreadable, match="another measurement than its name says"):
        folder.of("it").get("first")


def test_a_damaged_identity_is_named(folder, identity):
    (folder.path / IDENTITY).write_bytes(b"nothing")
    with pytest.raises(Unreadable, match=IDENTITY):
        folder.begin(identity(), resume=True)


def test_a_write_that_fails_leaves_no_half_of_a_file(folder, monkeypatch):
    folder.write(ANSWER, "{}")

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("numpy.savez", full)
    with pytest.raises(OSError, match="No space"):
        folder.of("it").put("first", ARRAYS)
    assert folder.of("it").get("first") is None
    assert {path.name for path in folder.path.iterdir() if not path.name.startswith(".lock")} == {IDENTITY, ANSWER}
