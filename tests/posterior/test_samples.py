"""Samples by name, chains of one point of a sweep, and diagnostics held to ArviZ on the raw arrays."""

import json
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

import hush
from hush.core.flat import unravelled
from hush.posterior import Posterior, wasserstein
from hush.posterior.quiet import arviz

LINEAR = hush.tasks.linear_regression(clients=2, examples=10, dimension=3)


def made(draws=40, chains=3, problem=LINEAR, dimension=3, lanes=None, shift=0.0, **more):
    values = np.random.default_rng(0).normal(size=(draws, chains, dimension)).astype(np.float32)
    values[:, 0] += shift
    lanes = lanes or [{"repetition": number} for number in range(chains)]
    return Posterior(values, problem, np.arange(1, draws + 1) * 10, lanes, **more)


def swept():
    lanes = [{"repetition": number, "local.lr": rate} for rate in (0.1, 0.3) for number in (0, 1)]
    return made(chains=4, lanes=lanes)


def test_parameters_are_the_models_arrays_by_name(unequal):
    found = made(draws=5, chains=2, problem=unequal, dimension=18)
    arrays = found.parameters()
    assert {name: array.shape for name, array in arrays.items()} == {
        "layers.1.weight": (2, 5, 3, 5),
        "layers.1.bias": (2, 5, 3),
    }
    for chain in range(2):
        for draw in range(5):
            own = unravelled(unequal, found.values[draw, chain])
            named = [array[chain, draw] for array in arrays.values()]
            for mine, theirs in zip(named, jax.tree.leaves(own), strict=True):
                assert (mine == np.asarray(theirs)).all()


def test_a_bare_vector_is_theta():
    found = made()
    assert list(found.parameters()) == ["theta"]
    assert (found.parameters()["theta"] == found.values.swapaxes(0, 1)).all()
    assert found.names() == ["theta[0]", "theta[1]", "theta[2]"]


def test_names_stand_in_the_order_of_the_flat_vector(unequal):
    found = made(draws=4, chains=2, problem=unequal, dimension=18)
    flat = ravel_pytree(unequal.init(jax.random.key(0)))[0]
    assert len(found.names()) == len(flat)
    number = found.names().index("layers.1.weight[2, 3]")
    assert (found.parameters()["layers.1.weight"][:, :, 2, 3] == found.values[:, :, number].T).all()


@pytest.mark.parametrize(
    ("tree", "names"),
    [
        ({"a/~/w": np.zeros(2), "b": np.zeros(())}, ["a.~.w", "b"]),
        ([np.zeros(1), {"x": np.zeros(1)}], ["0", "1.x"]),
        ({"a/b": np.zeros(1), "a": {"b": np.zeros(1)}}, ["0.a.b", "1.a.b"]),  # two that would be one
    ],
)
def test_names_of_other_trees(tree, names):
    floats = jax.tree.map(lambda leaf: jax.numpy.asarray(leaf, jax.numpy.float32), tree)
    model = (lambda key: floats, lambda params, inputs: inputs[:, 0])
    x, y = np.zeros((4, 2), np.float32), np.zeros(4, np.float32)
    problem = hush.tasks.arrays(x, y, np.array([0, 0, 1, 1]), model=model, kind="regression")
    size = sum(leaf.size for leaf in jax.tree.leaves(tree))
    assert list(made(draws=4, problem=problem, dimension=size).parameters()) == names


def test_where_takes_the_chains_of_a_point():
    found = swept()
    assert found.points() == [{"local.lr": 0.1}, {"local.lr": 0.3}]
    chosen = found.where({"local.lr": 0.3})
    assert (chosen.values == found.values[:, 2:]).all()
    assert [lane["repetition"] for lane in chosen.lanes] == [0, 1]
    assert (found.where({"local.lr": float(np.float32(0.3))}).values == chosen.values).all()
    assert (found.where({"repetition": 1}).values == found.values[:, [1, 3]]).all()
    with pytest.raises(ValueError, match=r"no chain is at local.lr = 0.2; there are local.lr = 0.1; local.lr = 0.3"):
        found.where({"local.lr": 0.2})
    with pytest.raises(ValueError, match=r"no chain has a setting 'lr'.*known: local.lr, repetition"):
        found.where({"lr": 0.1})


def test_points_of_a_sweep_are_never_mixed():
    found = swept()
    asked = (
        found.summary, found.worst, found.intervals, found.to_arviz, lambda: found.to_netcdf("never.nc"),
        lambda: found.wasserstein(np.zeros(3), np.eye(3)), lambda: found.chosen(2),
    )  # fmt: skip
    for ask in asked:
        with pytest.raises(ValueError, match=r"2 points.*local.lr = 0.1; local.lr = 0.3.*where\({'local.lr': 0.1}\)"):
            ask()
    assert found.where({"local.lr": 0.1}).worst()["r_hat"] > 0


def test_diagnostics_are_arvizs_on_the_raw_arrays(unequal):
    found = made(draws=60, chains=4, problem=unequal, dimension=18, shift=0.7)
    package = arviz()
    raw = [found.values[:, :, number].T for number in range(18)]
    hats = np.array([float(package.rhat(each)) for each in raw])
    table = found.summary()
    assert table["r_hat"].to_numpy() == pytest.approx(hats)
    assert table["ess_bulk"].to_numpy() == pytest.approx([float(package.ess(each)) for each in raw])
    assert found.worst() == pytest.approx(
        {
            "r_hat": hats.max(),
            "ess_bulk": min(float(package.ess(each)) for each in raw),
            "ess_tail": min(float(package.ess(each, method="tail")) for each in raw),
            "constant": 0,
        }
    )
    few = found.summary(most=5)
    assert list(few.index) == [found.names()[number] for number in np.argsort(-hats)[:5]]
    assert few["r_hat"].to_numpy() == pytest.approx(np.sort(hats)[::-1][:5])
    named = found.summary(parameters=["layers.1.bias[2]", "layers.1.weight[0, 0]"])
    assert named["mean"].to_numpy() == pytest.approx(table["mean"].loc[list(named.index)].to_numpy())


def test_many_columns_are_gone_through_in_parts(monkeypatch):
    found = made()
    whole = found.worst(), found.intervals()
    monkeypatch.setattr("hush.posterior.samples.COLUMNS_AT_ONCE", 2)
    assert found.worst() == whole[0]
    assert found.intervals().equals(whole[1])


def test_what_never_moves_is_counted_and_what_stands_apart_is_worst():
    found = made(draws=20, chains=2)
    found.values[:, :, 1] = 4.0
    assert found.worst()["constant"] == 1
    assert found.worst()["r_hat"] < 1.5
    assert list(found.chosen(2)) in (["theta[0]", "theta[2]"], ["theta[2]", "theta[0]"])
    found.values[:, 0, 1] = 5.0
    assert found.worst()["r_hat"] > 1e6
    found.values[:] = 1.0
    with pytest.raises(ValueError, match="none of the 3 parameters moves"):
        found.worst()


@pytest.mark.parametrize(("draws", "chains"), [(50, 1), (3, 4), (1, 1)])
def test_too_few_chains_or_draws_are_named(draws, chains):
    found = made(draws=draws, chains=chains)
    for ask in (found.summary, found.worst):
        with pytest.raises(ValueError, match=f"2 or more chains of 4 or more draws, found {chains} of {draws};"):
            ask()
    assert len(found.intervals()) == 3


def test_samples_that_are_not_finite_are_placed():
    found = made()
    found.values[7, 2, 1] = np.nan
    for ask in (found.summary, found.worst, found.intervals):
        with pytest.raises(ValueError, match=r"finite.*chain 2, theta\[1\]"):
            ask()


def test_intervals_are_quantiles_of_all_chains():
    found = made(draws=200, shift=1.0)
    table = found.intervals(0.8)
    for number, name in enumerate(found.names()):
        pooled = np.sort(found.values[:, :, number].ravel().astype(float))
        low, high = (np.interp(tail * (len(pooled) - 1), np.arange(len(pooled)), pooled) for tail in (0.1, 0.9))
        expected = [pooled.mean(), np.sqrt(((pooled - pooled.mean()) ** 2).sum() / (len(pooled) - 1)), low, high]
        assert table.loc[name, ["mean", "sd", "low", "high"]].to_numpy(dtype=float) == pytest.approx(expected)
    for wrong in (0, 1, 90):
        with pytest.raises(ValueError, match=f"probability must be between 0 and 1, found {wrong}"):
            found.intervals(wrong)


def test_the_distance_to_a_gaussian_is_over_all_chains():
    found = made(draws=500)
    every = np.concatenate([found.values[:, chain] for chain in range(3)])
    expected = wasserstein.to_gaussian(every, np.zeros(3), np.eye(3))
    assert found.wasserstein(np.zeros(3), np.eye(3)) == pytest.approx(expected)
    assert expected < 4 * wasserstein.floor(np.eye(3), 1500)


def test_a_file_comes_back_as_it_went(tmp_path, unequal):
    found = made(draws=6, chains=2, problem=unequal, dimension=18, settings={"local": {"lr": 0.1}})
    path = found.to_netcdf(tmp_path / "samples.nc")
    back = arviz().from_netcdf(str(path))
    for name, array in found.parameters().items():
        assert back.posterior[name].dtype == np.float32
        assert (back.posterior[name].to_numpy() == array).all()
    assert (back.sample_stats["round"].to_numpy() == [[10, 20, 30, 40, 50, 60]] * 2).all()
    assert back.attrs["inference_library"] == "hush"
    assert back.attrs["inference_library_version"] == hush.__version__
    assert back.attrs["rounds"] == "6 draws, from round 10 to 60"
    assert json.loads(back.attrs["settings"]) == {"local": {"lr": 0.1}}
    assert json.loads(back.attrs["chains"]) == [{"repetition": 0}, {"repetition": 1}]
    back.close()


def test_more_chains_than_draws_are_no_mistake():
    found = made(draws=5, chains=30)  # warnings are errors here
    assert found.to_arviz().posterior.sizes["chain"] == 30
    assert len(found.summary()) == 3


def test_samples_on_disk_stay_there(tmp_path):
    values = np.memmap(tmp_path / "values", np.float32, "w+", shape=(20, 4, 3))
    values[:] = np.random.default_rng(1).normal(size=values.shape)
    found = Posterior(values, LINEAR, np.arange(20), swept().lanes)
    point = found.where({"local.lr": 0.3})
    assert np.shares_memory(point.values, values)
    memory = Posterior(np.array(values), LINEAR, np.arange(20), swept().lanes).where({"local.lr": 0.3})
    assert point.worst() == memory.worst()


def test_shapes_that_do_not_fit_are_refused():
    values = np.zeros((5, 2, 3))
    lanes = [{"repetition": 0}, {"repetition": 1}]
    with pytest.raises(ValueError, match=r"\[draws, chains, d\], found \(5, 3\)"):
        Posterior(values[:, 0], LINEAR, np.arange(5), lanes)
    with pytest.raises(ValueError, match=r"5 draws of 2 chains.*found 4 and 2"):
        Posterior(values, LINEAR, np.arange(4), lanes)
    with pytest.raises(ValueError, match="has 3 parameters, found samples of 2"):
        Posterior(values[:, :, :2], LINEAR, np.arange(5), lanes)


def test_unknown_parameters_are_refused():
    with pytest.raises(
        ValueError, match=r"unknown parameter 'w'; there are theta\[0\] to theta\[2\], from theta \[3\]"
    ):
        made().chosen(2, ["w"])
    with pytest.raises(ValueError, match="most must be a whole number of at least 1, found 0"):
        made().summary(most=0)


@pytest.mark.slow
def test_arviz_is_imported_late_and_quietly(tmp_path):
    # It warns once a day, and remembers the day in the cache: an empty one is a new day.
    code = (
        "import sys, hush.posterior\n"
        "assert not {'arviz', 'blackjax', 'matplotlib.pyplot'} & set(sys.modules)\n"
        "from hush.posterior.quiet import arviz; arviz()\n"
    )
    sources = str(Path(hush.__file__).parents[1])  # those under test, wherever another hush may be installed
    environment = {"XDG_CACHE_HOME": str(tmp_path), "PATH": "", "JAX_PLATFORMS": "cpu", "PYTHONPATH": sources}
    ran = subprocess.run([sys.executable, "-W", "error", "-c", code], env=environment, capture_output=True, text=True)
    assert (ran.returncode, ran.stderr) == (0, "")
