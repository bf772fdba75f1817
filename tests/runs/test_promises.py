"""Going on with a private run: a guarantee that was lost stays lost, and what more rounds cost is told before them."""

import json
from dataclasses import replace

import numpy as np
import pytest

import hush
from hush.channel import Noisy
from hush.cohort import Poisson, Uniform
from hush.local import LocalSGD
from hush.privacy.shown import rounded_up
from hush.store.folder import RunFolder
from hush.store.reading import load_archive
from hush.uplink import QSGD, Clip, Gaussian

pytestmark = [pytest.mark.usefixtures("unpainted"), pytest.mark.slow]
SGD = LocalSGD(0.05, steps=1)
POISSON = hush.Algorithm(Poisson(0.5, "equal"), SGD, (Clip(1.0),), Noisy(std=1.0))
LOCAL = hush.Algorithm(Uniform(3, "equal"), SGD, (Clip(1.0), Gaussian(1.0)))
ELIAS = replace(POISSON, cohort=Uniform(3, "equal"), uplink=(QSGD(4, code="elias"), Clip(1.0)))


def go(made, problem, rounds, **asked):
    return hush.run(made, problem, rounds, progress=False, **asked)


@pytest.mark.parametrize(
    ("made", "budget"),
    [
        (POISSON, {"bit_budget": 1e6}),
        (POISSON, {"client_bit_budget": 1e5}),
        (ELIAS, {"bit_budget": 1e6}),
    ],
)
def test_what_a_budget_voided_stays_void_without_it(quadratic, tmp_path, made, budget):
    folder = tmp_path / "run"
    assert go(made, quadratic, 3).status["privacy"]["guarantee"] != "none", "otherwise nothing was lost"
    first = go(made, quadratic, 2, folder=folder, **budget).status["privacy"]
    assert first["guarantee"] == "none"
    for rounds in (3, 4):  # and once more: it is not forgotten on the way
        resumed = go(made, quadratic, rounds, folder=folder, resume=True)
        said = resumed.status["privacy"]
        assert said == {"guarantee": "none", "reason": f"it was lost in an earlier part of this run: {first['reason']}"}
        assert "epsilon" not in resumed.records
    for named in ({"unit": "client"}, {"trust": "server"}, {"epsilon": 1e3}):
        with pytest.raises(ValueError, match="the guarantee that is asked for cannot be kept: it was lost in an earl"):
            go(made, quadratic, 5, folder=folder, resume=True, **named)
    assert json.loads((folder / "status.json").read_text())["round"] == 4


def test_a_guarantee_is_lost_by_a_budget_that_comes_later(quadratic, tmp_path):
    folder = tmp_path / "run"
    assert go(POISSON, quadratic, 2, folder=folder).status["privacy"]["guarantee"] != "none"
    voided = go(POISSON, quadratic, 4, folder=folder, resume=True, bit_budget=1e6)
    assert voided.status["privacy"]["guarantee"] == "none"
    assert voided.records["epsilon"].notna().tolist() == [True, True, False]
    assert go(POISSON, quadratic, 6, folder=folder, resume=True).status["privacy"]["guarantee"] == "none"


def test_an_end_that_was_no_secret_under_one_trust_may_be_one_under_another(quadratic, tmp_path):
    """In the local model all that follows from a message is paid for; who trusts a sum alone is told its length."""
    folder = tmp_path / "run"
    go(LOCAL, quadratic, 2, folder=folder, trust="local", bit_budget=1e6)
    with pytest.raises(ValueError, match=r"bit_budget could end it, which was held against .*local.*not against .*sum"):
        go(LOCAL, quadratic, 3, folder=folder, resume=True, trust="assumed-sum")
    assert go(LOCAL, quadratic, 3, folder=folder, resume=True, trust="local").status["privacy"]["epsilon"] > 0
    with pytest.raises(ValueError, match="which was held against"):
        go(LOCAL, quadratic, 4, folder=folder, resume=True, trust="assumed-sum")


def test_a_folder_that_does_not_say_why_it_has_no_epsilon(quadratic, tmp_path):
    """Of a version before reasons were kept: its records say enough."""
    folder = tmp_path / "run"
    go(POISSON, quadratic, 2, folder=folder, bit_budget=1e6)
    state = {name: each for name, each in load_archive(folder, "checkpoint.npz").items() if "privacy/" not in name}
    (folder / "manifest.txt").unlink()
    np.savez(folder / "checkpoint.npz", **state)
    said = go(POISSON, quadratic, 3, folder=folder, resume=True).status["privacy"]
    assert said["reason"] == "it was lost in an earlier part of this run: that reported none"


def test_more_rounds_than_were_planned_are_told_of_before_any(quadratic, tmp_path, capsys):
    folder = tmp_path / "run"
    before = go(POISSON, quadratic, 3, folder=folder).status["privacy"]["epsilon"]
    capsys.readouterr()
    after = hush.run(POISSON, quadratic, 9, folder=folder, resume=True)
    notice, compiling, *_ = capsys.readouterr().err.splitlines()
    spent = after.status["privacy"]["epsilon"]
    assert compiling == "compiling"
    assert notice.startswith(f"3 rounds were planned, with ε = {rounded_up(before)} at δ = 1e-05; with 9 rounds")
    assert f"up to {rounded_up(spent)}:" in notice
    assert after.status["privacy"]["on resuming"] == [notice]
    # Nothing new is asked: nothing new is told, and what was told stays.
    assert go(POISSON, quadratic, 9, folder=folder, resume=True).status["privacy"]["on resuming"] == [notice]
    longest = go(POISSON, quadratic, 12, folder=folder, resume=True).status["privacy"]["on resuming"]
    assert longest[0] == notice
    assert longest[1].startswith("9 rounds were planned")


def test_where_clients_pay_for_their_own_rounds_the_notice_is_a_bound(quadratic, tmp_path):
    folder = tmp_path / "run"
    go(LOCAL, quadratic, 2, folder=folder)
    after = go(LOCAL, quadratic, 6, folder=folder, resume=True).status["privacy"]
    (told,) = after["on resuming"]
    bound = float(told.partition("up to ")[2].partition(":")[0])
    assert bound >= after["epsilon"]


def test_a_run_without_a_guarantee_has_nothing_to_tell(quadratic, tmp_path):
    plain = hush.fedavg(clients=3, steps=1)
    go(plain, quadratic, 2, folder=tmp_path / "run")
    assert "on resuming" not in go(plain, quadratic, 4, folder=tmp_path / "run", resume=True).status["privacy"]


def test_checkpoints_carry_it_from_the_first(quadratic, tmp_path):
    go(POISSON, quadratic, 2, folder=tmp_path / "run")
    state = load_archive(tmp_path / "run", "checkpoint.npz")
    assert (str(state["privacy/lost"]), int(state["privacy/planned"])) == ("", 2)
    assert RunFolder(tmp_path / "run").reopen()["privacy/told"] == "[]"
