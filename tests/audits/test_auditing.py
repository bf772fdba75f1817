"""An audit from question to answer: the claim, what is refused before any work, the verdict, the folder."""

import json
import os
import signal
from math import inf

import numpy as np
import pytest
from made_up_findings import NOTHING, claim, finding, scores

import hush
from hush.audits.answer import NOT_COVERED, NOTHING_CLAIMED, REFUTED, STANDS, Audit, verdict_of
from hush.audits.auditing import audit
from hush.audits.claims import ADVERSARIES, COVERED
from hush.audits.findings import Bound, Finding
from hush.audits.methods import METHODS, Method
from hush.audits.timing import LEAST
from hush.privacy.shown import rounded_down
from hush.store.audits import ANSWER, MEASURED, PAGE, PICTURES, TABLE
from hush.store.fingerprint import fingerprint


@pytest.fixture(scope="module")
def problem():
    return hush.tasks.linear_regression(clients=8, examples=10, dimension=2)


@pytest.fixture(scope="module")
def private():
    return hush.dp_fedavg(8, 8, clip=1.0, noise_multiplier=4.0, steps=1, draw="poisson")


class Pretended:
    """An attack that shows whatever it is told to, and knows what it was asked."""

    def __init__(self, bound=0.01):
        self.bound, self.asked, self.measurements = bound, [], 0

    def __call__(self, asked, progress):
        self.asked.append(asked)
        sees = asked.adversary or COVERED[asked.claim.trust][-1]
        for part in range(3):
            kept = None if asked.measured is None else asked.measured.get(f"{sees} {part}")
            if kept is None:
                self.measurements += 1
                if asked.measured is not None:
                    asked.measured.put(f"{sees} {part}", {"seen": np.arange(3)})
            progress((part + 1) / 3, f"part {part}")
        bounds = (Bound(asked.claim.delta, self.bound, asked.claim.epsilon),)
        return Finding("pairs", sees, asked.claim, bounds, asked.confidence, scores(runs=50), words="pretended")


@pytest.fixture
def pretended(monkeypatch):
    """In the place of pairs and canaries."""
    made = Pretended()
    monkeypatch.setitem(METHODS, "pairs", Method(made, "pretends"))
    monkeypatch.setitem(METHODS, "canaries", Method(made, "pretends", supervised=True))
    return made


def asked(algorithm, problem, **more):
    return audit(algorithm, problem, 3, progress=False, **more)


class TestTheClaim:
    def test_it_is_the_accountants(self, private, problem, pretended):
        found = asked(private, problem, delta=1e-4)
        described = hush.privacy.describe(private, problem, 3)
        assert found.claim.epsilon == pytest.approx(described.most(1e-4))
        assert (found.claim.unit, found.claim.relation, found.claim.trust) == ("client", "add-or-remove", "server")
        assert found.claim.words["composition"] == "over all rounds, whoever took part"
        assert pretended.asked[0].proved

    def test_where_it_refuses_nothing_is_claimed(self, problem, pretended):
        pretended.bound = 100.0
        found = asked(hush.fedavg(clients=4, steps=1), problem)
        assert found.claim.epsilon == inf
        assert not found.refuted
        assert found.table["verdict"].tolist() == [NOTHING_CLAIMED]
        assert "why the accountant claims nothing" in found.claim.words
        assert "Nothing is claimed" in found.sentence

    def test_or_what_somebody_asserts(self, problem, pretended):
        pretended.bound = 2.5
        found = asked(hush.fedavg(clients=4, steps=1), problem, epsilon=2.0)
        assert found.claim.epsilon == 2.0
        assert found.refuted
        assert not pretended.asked[0].proved

    def test_who_asserts_less_than_the_accountant_is_held_to_that(self, private, problem, pretended):
        proved = asked(private, problem).claim
        found = asked(private, problem, epsilon=proved.epsilon / 2)
        assert found.claim.epsilon == proved.epsilon / 2
        assert found.claim.relation == proved.relation
        assert "what the accountant claims" in found.claim.words

    def test_a_client_of_its_own_is_added_or_removed(self, problem, pretended):
        for cohort, relation in ((hush.cohort.Poisson(0.5), "add-or-remove"), (hush.cohort.Uniform(4), "replace")):
            assert asked(hush.Algorithm(cohort, hush.local.Gradient()), problem).claim.relation == relation


class TestRefusals:
    @pytest.mark.parametrize(
        ("more", "said"),
        [
            ({"methods": ["guessing"]}, "unknown method 'guessing'"),
            ({"methods": ()}, "an audit needs a method"),
            ({"adversary": "everything"}, "unknown adversary"),
            ({"confidence": 1.0}, "confidence must be a number above"),
            ({"lanes": 3}, "lanes must be a whole number of at least"),
            ({"delta": 0.0}, "delta"),
            ({"unit": "household"}, "unit"),
            ({"trust": "nobody"}, "trust"),
            ({"epsilon": -1.0}, "epsilon"),
            ({"seed": -1}, "seed"),
        ],
    )
    def test_before_any_work(self, private, problem, pretended, more, said, tmp_path):
        with pytest.raises(ValueError, match=said):
            asked(private, problem, folder=tmp_path / "audit", **more)
        assert pretended.asked == []
        assert not (tmp_path / "audit").exists()

    @pytest.mark.parametrize("name", [name for name, method in METHODS.items() if method.supervised])
    def test_what_needs_data_and_a_model_says_so(self, private, name):
        potentials = hush.tasks.gaussian_potentials(np.zeros((8, 2)), np.stack([np.eye(2)] * 8))
        with pytest.raises(ValueError, match=f"{name} needs a problem of data and a model"):
            asked(private, potentials, methods=["pairs", name])


class TestTheVerdict:
    def test_of_each_kind(self):
        assert verdict_of(finding(1.0)) == STANDS
        assert verdict_of(finding(2.5)) == REFUTED
        assert verdict_of(finding(2.5, "messages")) == NOT_COVERED
        assert verdict_of(finding(2.5, held_to=NOTHING)) == NOTHING_CLAIMED

    def test_only_who_is_covered_refutes(self):
        stands = Audit("it", 3, claim(), (finding(1.0), finding(9.0, "messages")))
        assert not stands.refuted
        assert stands.strongest.bound == 1.0
        assert Audit("it", 3, claim(), (finding(1.0), finding(9.0, "final model"))).refuted

    def test_the_sentence_has_all_that_an_epsilon_stands_beside(self):
        for bound, said in ((1.0, "is not refuted. That is no proof"), (2.5, "The claim is refuted: ε ≤ 2 is claimed")):
            text = Audit("it", 3, claim(), (finding(bound),)).sentence
            for words in (said, "δ = 1e-05", "one client replaced", "trust: server", "all rounds", "0.95 confidence"):
                assert words in text

    def test_a_refutation_at_another_delta_is_told_where(self):
        held = claim()
        bounds = (Bound(held.delta, 1.0, 2.0), Bound(1e-2, 3.0, 2.0))
        found = Finding("pairs", "every model", held, bounds, 0.95, scores(runs=10))
        answer = Audit("it", 3, held, (found,))
        assert answer.refuted
        assert "ε ≤ 2 at δ = 0.01 is claimed, and ε ≥ 3 was shown" in answer.sentence

    @pytest.mark.parametrize("value", [1.2345678, 0.00123999, 99.999, 1e-7, 12.0, 0.0])
    def test_a_bound_is_never_rounded_up(self, value):
        for digits in (2, 3, 4):
            said = float(rounded_down(value, digits))
            assert said <= value
            assert said == pytest.approx(value, rel=10.0 ** (1 - digits))

    def test_shown_in_a_notebook(self):
        text = Audit("it", 3, claim(), (finding(),))._repr_html_()
        assert "not refuted" in text
        assert "<table" in text


class TestAttacks:
    def test_each_adversary_is_one(self, private, problem, pretended):
        found = asked(private, problem, methods=["pairs", "canaries"], adversary=["final model", "messages"])
        assert [each.adversary for each in found.findings] == ["final model", "messages"] * 2
        assert [each.covered for each in found.findings] == [True, False] * 2

    def test_the_confidence_is_shared_out(self, private, problem, pretended):
        """Four bounds of 0.975 are wrong, one or more of them, in no more than one of ten audits."""
        found = asked(private, problem, methods=["pairs", "canaries"], adversary=list(ADVERSARIES)[:2], confidence=0.9)
        assert [each.confidence for each in found.findings] == pytest.approx([0.975] * 4)

    def test_rounds_seed_and_lanes_get_there(self, private, problem, pretended):
        asked(private, problem, seed=5, lanes=128)
        (told,) = pretended.asked
        assert (told.rounds, told.seed, told.lanes) == (3, 5, 128)

    def test_minutes_are_lanes(self, private, problem, pretended, tmp_path):
        """By how long a few runs take; found once, and kept for who goes on."""
        asked(private, problem, minutes=1.0, folder=tmp_path)
        first, told = pretended.asked
        assert first.lanes == LEAST
        assert told.lanes >= LEAST
        asked(private, problem, minutes=1.0, folder=tmp_path, resume=True, adversary="final model")
        assert len(pretended.asked) == 3
        assert pretended.asked[-1].lanes == told.lanes
        with pytest.raises(ValueError, match=r"minutes \(1\.0 before, 2\.0 now\)"):
            asked(private, problem, minutes=2.0, folder=tmp_path, resume=True)


class TestTheFolder:
    def test_it_holds_the_answer(self, private, problem, pretended, tmp_path):
        found = asked(private, problem, folder=tmp_path)
        assert found.folder == tmp_path
        for name in (ANSWER, TABLE, PAGE, *PICTURES):
            assert (tmp_path / name).is_file()
        said = json.loads((tmp_path / ANSWER).read_text())
        assert said["refuted"] is False
        assert said["claim"]["epsilon"] == pytest.approx(found.claim.epsilon)
        assert [each["verdict"] for each in said["findings"]] == [STANDS]

    def test_what_was_measured_is_not_measured_again(self, private, problem, pretended, tmp_path):
        asked(private, problem, folder=tmp_path)
        assert pretended.measurements == 3
        again = asked(private, problem, folder=tmp_path, resume=True)
        assert pretended.measurements == 3
        assert len(pretended.asked) == 1
        assert again.findings[0].words == "pretended"
        assert len(list(tmp_path.glob(MEASURED))) == 1  # the finding, and not what led to it
        asked(private, problem, folder=tmp_path, resume=True, adversary="final model")
        assert pretended.measurements == 6

    def test_other_settings_are_refused(self, private, problem, pretended, tmp_path):
        asked(private, problem, folder=tmp_path)
        with pytest.raises(ValueError, match=r"holds another audit: .*seed"):
            asked(private, problem, folder=tmp_path, resume=True, seed=1)
        with pytest.raises(ValueError, match="already holds an audit"):
            asked(private, problem, folder=tmp_path)

    def test_an_answer_can_be_saved_later(self, private, problem, pretended, tmp_path):
        found = asked(private, problem)
        assert found.folder is None
        assert found.save(tmp_path / "kept").folder == tmp_path / "kept"
        with pytest.raises(ValueError, match="already holds an audit"):
            found.save(tmp_path / "kept")
        found.save(tmp_path / "kept", replace=True)

    def test_nothing_that_is_claimed_is_no_number(self, problem, pretended, tmp_path):
        asked(hush.fedavg(clients=4, steps=1), problem, folder=tmp_path)
        said = json.loads((tmp_path / ANSWER).read_text())
        assert said["claim"]["epsilon"] is None

    def test_told_to_stop_it_leaves_all_that_is_finished(self, private, problem, pretended, monkeypatch, tmp_path):
        def stopped(asked, progress):
            asked.measured.put("half", {"seen": np.ones(2)})
            os.kill(os.getpid(), signal.SIGINT)
            progress(0.5, "never said")
            raise AssertionError("it went on")

        monkeypatch.setitem(METHODS, "canaries", Method(stopped, "is stopped", supervised=True))
        with pytest.raises(KeyboardInterrupt):
            asked(private, problem, folder=tmp_path, methods=["pairs", "canaries"])
        said = json.loads((tmp_path / ANSWER).read_text())
        assert said["complete"] is False
        assert len(said["findings"]) == 1
        assert "interrupted" in (tmp_path / PAGE).read_text()
        monkeypatch.setitem(METHODS, "canaries", Method(pretended, "goes on", supervised=True))
        again = asked(private, problem, folder=tmp_path, methods=["pairs", "canaries"], resume=True)
        assert len(pretended.asked) == 2  # pairs before, canaries now
        assert again.complete


def test_the_fingerprint_knows_the_problem(private, problem):
    other = hush.tasks.linear_regression(clients=8, examples=10, dimension=2, seed=1)
    assert fingerprint(private, problem, {}).differences(fingerprint(private, other, {}))
