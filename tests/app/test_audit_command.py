"""The command `hush audit`: what it prints, how it ends, what it leaves behind."""

import json
import os
import re
import signal

import numpy as np
import pytest
from test_command_line import TINY, fails, fine, hush

from hush.app.failures import REFUTED
from hush.audits.claims import COVERED
from hush.audits.findings import Bound, Finding, Scores
from hush.audits.methods import METHODS, Method
from hush.store.audits import ANSWER, MEASURED, PAGE

pytestmark = pytest.mark.usefixtures("unpainted")

PRIVATE = """
[task]
name = "linear_regression"
clients = 6
examples = 10
dimension = 2

[algorithm]
name = "dp_fedavg"
clients = 6
population = 6
clip = 1.0
noise_multiplier = 4.0
steps = 1

[run]
rounds = 3
delta = 1e-3
"""


class Pretended:
    """An attack that shows whatever it is told to."""

    bound = 0.125

    def __call__(self, asked, progress):
        self.asked = asked
        sees = asked.adversary or COVERED[asked.claim.trust][-1]
        progress(0.5, "half of it")
        asked.measured.put("half", {"seen": np.ones(2)})
        draws = np.random.default_rng(0).normal(size=(2, 100))
        bounds = (Bound(asked.claim.delta, self.bound, asked.claim.epsilon),)
        return Finding("pairs", sees, asked.claim, bounds, asked.confidence, Scores(draws[0] + 1, draws[1]))


@pytest.fixture
def pretended(monkeypatch):
    made = Pretended()
    monkeypatch.setitem(METHODS, "pairs", Method(made, "pretends"))
    return made


@pytest.fixture
def private(tmp_path, monkeypatch):
    """A settings file in a folder of its own, in which commands run."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "private.toml"
    path.write_text(PRIVATE)
    return path


def test_help_teaches():
    text = fine("audit", "--help")
    assert re.search(r"^ hush audit my\.toml", text, re.MULTILINE)
    assert "Exit code 3" in text
    for option in ("--delta", "--unit", "--trust", "--adversary", "--methods", "--epsilon", "--rounds", "--lanes"):
        assert option in text


def test_both_sides_are_printed_with_all_that_belongs_to_them(private, pretended):
    text = " ".join(fine("audit", private, "--quiet").split())
    for words in ("lower bound", "0.125", "0.95", "not refuted", "one client added or removed", "trust: server"):
        assert words in text
    assert "δ = 0.001" in text
    assert (private.parent / "audit" / PAGE).is_file()
    assert pretended.asked.rounds == 3


def test_progress_is_told_unless_it_is_not_wanted(private, pretended):
    assert "pairs: half of it" in hush("audit", private).stderr
    assert hush("audit", private, "--force", "--quiet").stderr == ""


def test_a_claim_that_is_too_small_ends_with_its_code(private, pretended):
    found = hush("audit", private, "--epsilon", "0.1", "--quiet")
    assert found.exit_code == REFUTED == 3
    assert "The claim is refuted: ε ≤ 0.1 is claimed, and ε ≥ 0.125 was shown" in " ".join(found.stdout.split())
    assert json.loads((private.parent / "audit" / ANSWER).read_text())["refuted"] is True


def test_who_is_not_covered_refutes_nothing(private, pretended):
    pretended.bound = 50.0
    assert hush("audit", private, "--quiet").exit_code == 3
    text = fine("audit", private, "--adversary", "messages", "--force", "--quiet")
    assert "not covered" in text


def test_without_a_guarantee_nothing_is_claimed(private, pretended):
    private.write_text(TINY)
    text = fine("audit", private, "--quiet")
    assert "Nothing is claimed" in " ".join(text.split())


def test_settings_are_changed_as_those_of_a_run(private, pretended):
    fine("audit", private, "--set", "run.delta=1e-4", "--rounds", "2", "--lanes", "128", "--seed", "3", "--quiet")
    told = pretended.asked
    assert (told.claim.delta, told.rounds, told.lanes, told.seed) == (1e-4, 2, 128, 3)
    fine("audit", private, "--delta", "1e-2", "--trust", "secret-sum", "--force", "--quiet")
    assert (pretended.asked.claim.delta, pretended.asked.claim.trust) == (1e-2, "secret-sum")


@pytest.mark.parametrize(
    ("message", "options"),
    [
        ("unknown method 'luck'", ["--methods", "pairs,luck"]),
        ("an audit needs a method", ["--methods", ","]),
        ("unknown adversary 'god'", ["--adversary", "god"]),
        ("unknown trust model", ["--trust", "nobody"]),
        ("unknown unit", ["--unit", "nation"]),
        ("delta must be", ["--delta", "2"]),
        ("lanes must be", ["--lanes", "2"]),
        ("minutes must be", ["--minutes", "0"]),
        ("say one", ["--minutes", "1", "--lanes", "128"]),
        ("confidence must be", ["--confidence", "95"]),
        ("rounds must be", ["--rounds", "-1"]),
        ("rounds must be", ["--rounds", "0"]),
        ("holds no audit to resume", ["--resume"]),
        ("no such file", ["--set", "task.clients=5", "missing.toml"]),
    ],
)
def test_what_makes_no_sense_is_refused_before_any_work(private, pretended, message, options):
    settings = [] if "missing.toml" in options else [private]
    fails(2, message, "audit", *settings, *options)
    assert not hasattr(pretended, "asked")


def test_a_sweep_and_a_run_without_end_are_refused(private, pretended):
    fails(2, "an audit is of one algorithm", "audit", private, "--set", "sweep.local.lr=[0.1, 0.2]")
    private.write_text(PRIVATE.replace("rounds = 3", "bit_budget = 1e6"))
    fails(2, "say for how many rounds", "audit", private)
    fine("audit", private, "--rounds", "2", "--quiet")


def test_a_budget_of_privacy_ends_what_is_audited(private, pretended):
    private.write_text(PRIVATE + "epsilon = 0.9\n")
    fine("audit", private, "--quiet")
    assert pretended.asked.rounds < 3
    assert pretended.asked.claim.epsilon <= 0.9


def test_it_is_replaced_or_resumed_where_that_is_asked_for(private, pretended):
    fine("audit", private, "--quiet")
    fails(2, "already holds an audit", "audit", private)
    del pretended.asked
    fine("audit", private, "--resume", "--quiet")
    assert not hasattr(pretended, "asked")
    fails(2, r"holds another audit: different are .*seed", "audit", private, "--resume", "--seed", "7")
    fine("audit", private, "--force", "--seed", "7", "--quiet")


def test_told_to_stop_it_says_how_to_go_on_and_keeps_what_is_finished(private, monkeypatch):
    def stopped(asked, progress):
        asked.measured.put("half", {"seen": np.ones(2)})
        os.kill(os.getpid(), signal.SIGINT)
        progress(0.5, "never said")

    monkeypatch.setitem(METHODS, "pairs", Method(stopped, "is stopped"))
    found = fails(130, "go on with --resume", "audit", private)
    assert "interrupted" in found.stderr
    assert len(list((private.parent / "audit").glob(MEASURED))) == 1


@pytest.mark.slow
def test_of_a_run_it_is_told_in_its_report(private, pretended):
    fine("run", private, "--out", "first", "--quiet")
    assert 'id="audit"' not in (private.parent / "first" / "report.html").read_text()
    fine("audit", "first", "--quiet")
    report = (private.parent / "first" / "report.html").read_text()
    assert 'href="audit/audit.html"' in report
    assert "is not refuted" in report
    fine("report", "first")
    assert 'id="audit"' in (private.parent / "first" / "report.html").read_text()
    fine("run", private, "--out", "first", "--force", "--set", "local.lr=0.2", "--quiet")
    assert 'id="audit"' not in (private.parent / "first" / "report.html").read_text()


def test_what_is_no_run_is_refused(private, pretended):
    (private.parent / "empty").mkdir()
    fails(2, "is not the folder of a run", "audit", "empty")
