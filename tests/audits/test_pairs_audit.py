"""The audit by pairs from end to end, on small algorithms."""

import numpy as np
import pytest
from sabotage import SABOTAGES
from sound import DELTA, SOUND, fedavg

import hush
from hush.audits import asserted, nothing_claimed
from hush.audits.pairs import arena, audit_pairs
from hush.privacy import EqualClients, NoGuarantee

pytestmark = pytest.mark.slow

TEN = EqualClients(10, 8)


@pytest.mark.parametrize("name", ["cyclic"])
def test_a_sound_one_is_not_accused(name):
    case = next(case for case in SOUND if case.name == name)
    finding = audit_pairs(case.make(), case.clients, case.rounds, delta=DELTA, lanes=1024)
    assert not finding.refuted
    assert finding.covered
    assert max(bound.epsilon / bound.claimed for bound in finding.bounds) > 0.4
    assert finding.bounds[0].claimed == finding.claim.epsilon
    assert 0 < finding.bound < finding.claim.epsilon


@pytest.mark.parametrize(
    "name", ["clip after the noise", "noise on some numbers only", "the same noise in every round"]
)
def test_what_is_wrong_is_caught(name):
    """Nearly all lanes tell: the bound is the most that so many lanes can show, whatever the seed."""
    case = next(case for case in SABOTAGES if case.name == name)
    assert audit_pairs(case.run(), case.clients, case.rounds, claim=case.claim(), lanes=1024).refuted


class Kept(dict):
    """Chunks in memory."""

    def put(self, key, arrays):
        assert key not in self
        self[key] = arrays


def test_an_audit_goes_on_where_it_ended(monkeypatch):
    """From kept chunks the finding is the same to the last number, and nothing is run."""
    algorithm, kept, told = fedavg(draw="cyclic"), Kept(), []
    asked = {"delta": DELTA, "lanes": 256, "measured": kept}
    first = audit_pairs(algorithm, TEN, 1, progress=lambda share, words: told.append((share, words)), **asked)
    shares = [share for share, _ in told]
    assert shares == sorted(shares)
    assert shares[-1] == 1
    assert len(kept) == len(told)

    monkeypatch.setattr(arena.Arena, "run", lambda *_: pytest.fail("this was done before"))
    again = audit_pairs(algorithm, TEN, 1, **asked)
    assert again.bounds == first.bounds
    assert np.array_equal(again.scores.included, first.scores.included)


def test_other_adversaries():
    """The last model alone, which tells less than all of them."""
    last = audit_pairs(fedavg(draw="cyclic"), TEN, 2, delta=DELTA, adversary="final model", lanes=256)
    assert last.covered
    assert not last.refuted
    assert last.estimate > 1


@pytest.mark.parametrize("draw", ["cyclic", "poisson"])  # one client replaced; one added or removed
def test_nothing_hides_a_message_from_who_sees_it(draw):
    each = audit_pairs(fedavg(draw=draw), TEN, 2, delta=DELTA, adversary="messages", lanes=256)
    assert not each.covered
    assert not each.refuted
    assert each.bound > 3.5  # ln(256/4.4) is all that lanes can show


def test_without_noise_and_without_a_claim():
    claim = nothing_claimed(DELTA, unit="client", relation="replace", trust="server")
    finding = audit_pairs(hush.fedavg(steps=1), TEN, 1, claim=claim, lanes=256)
    assert not finding.refuted
    assert finding.bound > 3.5
    claim = asserted(1.0, DELTA, unit="client", relation="replace", trust="server")
    assert audit_pairs(hush.fedavg(steps=1), TEN, 1, claim=claim, lanes=256).refuted


def test_what_is_refused():
    with pytest.raises(NoGuarantee, match="no privacy guarantee"):
        audit_pairs(hush.fedavg(), TEN, 1, delta=DELTA)
    with pytest.raises(ValueError, match="takes a claim, or a delta"):
        audit_pairs(fedavg(), TEN, 1)
    with pytest.raises(ValueError, match="adversary"):
        audit_pairs(fedavg(), TEN, 1, delta=DELTA, adversary="everybody")
    with pytest.raises(ValueError, match="lanes"):
        audit_pairs(fedavg(), TEN, 1, delta=DELTA, lanes=8)
