"""Samples as a run goes: which they are, how many stay, that they go on after a stop, what is averaged over them."""

import json

import jax
import numpy as np
import pytest

import hush
from hush.core.flat import unravelled
from hush.execution.simulation import Simulation
from hush.posterior import scores
from hush.posterior.tables import AVERAGE, POINT
from hush.runs.samples import Thinning
from hush.store.files import SAMPLES

pytestmark = [pytest.mark.usefixtures("unpainted"), pytest.mark.slow]

ALGORITHM = hush.fa_ld(steps=2, lr=1e-3, temperature=0.5, correlation=0.5)


def run(problem, rounds=20, **asked):
    asked = {"repetitions": 2, "evaluate_every": 10, "sample_every": 3, "warm_up": 5, "progress": False} | asked
    return hush.run(ALGORITHM, problem, rounds, **asked)


@pytest.fixture(scope="module")
def walked(unequal):
    """The models after every round, by the engine alone."""
    simulation, found = Simulation(ALGORITHM, unequal, repetitions=2), []
    for _ in range(32):
        simulation.advance(1)
        found.append(simulation.models)
    return np.array(found)


def test_thinning_counts_from_the_warm_up():
    thinning = Thinning(3, 5)
    assert [thinning.after(number) for number in (0, 5, 7, 8, 10, 11)] == [8, 8, 8, 11, 11, 14]
    assert thinning.round_of(np.arange(3)).tolist() == [8, 11, 14]
    assert Thinning(4).after(0) == 4


def test_samples_are_the_models_of_their_rounds(unequal, walked):
    posterior = run(unequal).posterior
    assert posterior.rounds.tolist() == [8, 11, 14, 17, 20]
    np.testing.assert_array_equal(posterior.values, walked[posterior.rounds - 1])
    assert posterior.lanes == [{"repetition": 0}, {"repetition": 1}]


def test_memory_is_bounded_and_what_is_kept_is_spread_evenly(unequal, walked):
    result = run(unequal, 32, sample_every=1, warm_up=0, most_samples=10)
    assert result.posterior.rounds.tolist() == [1, 5, 9, 13, 17, 21, 25, 29]
    np.testing.assert_array_equal(result.posterior.values, walked[result.posterior.rounds - 1])
    everything = run(unequal, 32, sample_every=1, warm_up=0)
    np.testing.assert_array_equal(result.average, everything.average)  # averages leave nothing out


def test_with_a_folder_all_samples_are_on_disk(unequal, walked, tmp_path):
    result = run(unequal, 32, sample_every=1, warm_up=0, most_samples=10, folder=tmp_path / "run")
    assert SAMPLES.path(tmp_path / "run").stat().st_size == walked.astype(np.float32).nbytes
    np.testing.assert_array_equal(result.posterior.values, walked)


@pytest.mark.parametrize("streamed", [True, False])
def test_a_run_that_goes_on_has_the_samples_of_one_that_never_stopped(unequal, tmp_path, streamed):
    whole = run(unequal, 20)
    if streamed:
        run(unequal, 10, folder=tmp_path / "run")
        with SAMPLES.path(tmp_path / "run").open(
            "ab"
        ) as file:  # samples after the checkpoint, as a killed run leaves them
            file.write(b"x" * 1000)
        parts = run(unequal, 20, folder=tmp_path / "run", resume=True)
    else:
        from hush.runs.samples import Samples

        simulation = Simulation(ALGORITHM, unequal, repetitions=2)
        first, thinning = Samples(Thinning(3, 5), simulation, None), Thinning(3, 5)
        simulation.advance(8)
        first.take()
        again = Samples(thinning, simulation, None)
        again.restore(first.state())
        for _ in range(4):
            simulation.advance(3)
            again.take()
        np.testing.assert_array_equal(again.posterior({}).values, whole.posterior.values)
        np.testing.assert_array_equal(again.average, whole.average)
        return
    np.testing.assert_array_equal(parts.posterior.values, whole.posterior.values)
    np.testing.assert_array_equal(parts.average, whole.average)
    columns = [name for name in whole.records if name != "seconds"]
    np.testing.assert_array_equal(parts.records[columns], whole.records[columns])


def test_a_saved_result_goes_on_in_its_folder(unequal, tmp_path):
    whole = run(unequal, 20)
    run(unequal, 10).save(tmp_path / "run")
    parts = run(unequal, 20, folder=tmp_path / "run", resume=True)
    np.testing.assert_array_equal(parts.posterior.values, whole.posterior.values)
    run(unequal, 20, sample_every=1, most_samples=4).save(tmp_path / "thinned")
    with pytest.raises(ValueError, match="were thinned in memory"):
        run(unequal, 30, sample_every=1, most_samples=4, folder=tmp_path / "thinned", resume=True)


def test_predictions_are_averaged_over_the_samples(unequal):
    """By hand: softmax of each sample's logits, and the mean over samples."""
    result = run(unequal)
    inputs, answers = np.asarray(unequal.test.x), np.asarray(unequal.test.y)
    for chain in range(2):
        each = []
        for vector in result.posterior.values[:, chain]:
            logits = np.asarray(jax.vmap(unequal.present(unravelled(unequal, vector)))(inputs), float)
            each.append(np.exp(logits) / np.exp(logits).sum(1, keepdims=True))
        np.testing.assert_allclose(result.average[chain], np.mean(each, 0), rtol=1e-4, atol=1e-6)
        last = result.records.query(f"round == 20 and repetition == {chain}").iloc[0]
        for name, value in scores(result.average[chain], answers).items():
            assert last[f"predictive_{name}"] == pytest.approx(value, rel=1e-4, abs=1e-6)
    # The first evaluation has samples at 8 alone; before any sample there is no number.
    early = run(unequal, 10, evaluate_every=5).records
    assert early.query("round == 5").predictive_accuracy.isna().all()
    assert early.query("round == 10").predictive_accuracy.notna().all()


def test_a_point_estimate_is_scored_like_an_average(unequal):
    """Any algorithm: FedAvg's last model, by hand."""
    result = hush.run(hush.fedavg(steps=2, lr=0.1), unequal, 4, repetitions=2, progress=False)
    table = result.calibration()
    assert list(table.prediction) == [POINT, POINT]
    logits = np.asarray(jax.vmap(result.model(1))(np.asarray(unequal.test.x)), float)
    chances = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    for name, value in scores(chances, np.asarray(unequal.test.y)).items():
        assert table[name][1] == pytest.approx(value, rel=1e-4, abs=1e-6)
    assert table.accuracy[1] == pytest.approx(result.records.accuracy.iloc[-1])
    assert table.nll[1] == pytest.approx(result.records.test_loss.iloc[-1], rel=1e-4)
    from hush.posterior.tables import reliability_table

    lanes = table[["repetition"]]
    bins = reliability_table(result.predictions(), np.asarray(unequal.test.y), lanes)
    assert bins["count"].sum() == 9  # test examples, and not nine for each of two repetitions
    assert set(run(unequal).calibration().prediction) == {POINT, AVERAGE}


def test_the_report_shows_chains_and_calibration(unequal, tmp_path):
    result = run(unequal, 30, folder=tmp_path / "run")
    first = result.posterior.names()[0]
    assert len(result.trace([first]).axes) == 2
    assert result.density([first], (np.zeros(18), np.eye(18))).axes
    page = (tmp_path / "run" / "report.html").read_text()
    assert ("The chains do not agree yet" in page) == (result.posterior.worst()["r_hat"] > 1.1)
    for name in ('id="diagnostics"', 'id="trace"', 'id="density"', 'id="calibration"', 'id="reliability"'):
        assert name in page
    import xarray

    with xarray.open_dataset(tmp_path / "run" / "posterior.nc", group="posterior") as chains:
        values = np.concatenate([chains[name].to_numpy().reshape(2, 8, -1) for name in chains.data_vars], axis=2)
    np.testing.assert_array_equal(np.sort(values), np.sort(np.swapaxes(result.posterior.values, 0, 1)))
    assert json.loads((tmp_path / "run" / "diagnostics.json").read_text())["points"][0]["draws"] == 8


def test_a_sweep_has_a_posterior_at_each_point(unequal, tmp_path):
    result = run(unequal, 20, sweep={"local.lr": [1e-3, 1e-4]}, folder=tmp_path / "run")
    assert result.posterior.where({"local.lr": 1e-4}).values.shape[1] == 2
    assert (tmp_path / "run" / "posterior-1.nc").exists()
    rows = json.loads((tmp_path / "run" / "diagnostics.json").read_text())["points"]
    assert [row["local.lr"] for row in rows] == [1e-3, 1e-4]
    with pytest.raises(ValueError, match="2 points of a sweep"):
        result.trace()
    assert result.reliability().axes  # four predictors: two points, each with its last model and its average


def test_a_run_that_diverges_still_leaves_a_report(quadratic, tmp_path):
    asked = {"sample_every": 2, "folder": tmp_path / "run", "progress": False, "repetitions": 2}
    with pytest.warns(RuntimeWarning, match="not finite"), pytest.raises(hush.Diverged):
        hush.run(hush.fa_ld(steps=20, lr=1e3), quadratic, 20, **asked)
    assert "Diverged" in (tmp_path / "run" / "report.html").read_text()
    assert "finite" in json.loads((tmp_path / "run" / "diagnostics.json").read_text())["points"][0]["note"]


def test_what_is_refused(unequal, quadratic, tmp_path):
    for asked, message in (
        ({"sample_every": 0}, "sample_every must be a whole number of at least 1, found 0"),
        ({"warm_up": -1}, "warm_up must be a whole number of at least 0"),
        ({"most_samples": 1}, "most_samples must be a whole number of at least 2"),
    ):
        with pytest.raises(ValueError, match=message):
            run(unequal, **asked)
    with pytest.raises(ValueError, match="warm_up goes with sample_every, found warm_up=5 without it"):
        run(unequal, sample_every=None)
    with pytest.raises(ValueError, match=r"the first comes in round 8 \(warm_up=5, sample_every=3\), but rounds=7"):
        run(unequal, 7)
    with pytest.raises(ValueError, match="took no samples; run it with sample_every"):
        _ = run(unequal, sample_every=None, warm_up=0).posterior
    run(unequal, 10, folder=tmp_path / "run")
    with pytest.raises(ValueError, match=r"different are run.sample_every \(3 before, 2 now\)"):
        run(unequal, 20, sample_every=2, folder=tmp_path / "run", resume=True)
    SAMPLES.path(tmp_path / "run").write_bytes(b"")
    with pytest.raises(ValueError, match="has 0 bytes, the checkpoint counts on 144"):
        run(unequal, 20, folder=tmp_path / "run", resume=True)
    regression = run(quadratic)
    assert not any(name.startswith("predictive") for name in regression.records)
    with pytest.raises(ValueError, match="only predicted classes of test examples can be scored"):
        regression.calibration()
