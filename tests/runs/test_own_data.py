"""Models on each client's own data, from the run to the records, the clients' table and the report."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hush
from hush.core.flat import unravelled
from hush.runs.own_data import summarised

pytestmark = pytest.mark.slow


def accuracies(problem, vectors):
    @jax.jit
    def right(vector, client, rows):
        x, y = problem.client(client).examples(rows)
        return jnp.argmax(problem.model.apply(unravelled(problem, vector), x), 1) == y

    found = []
    for client, vector in enumerate(vectors):
        size = int(problem.population.sizes[client])
        rows = np.arange(problem.population.largest) % size  # as many for each, so that a program is compiled once
        found.append(np.mean(np.asarray(right(vector, client, rows))[:size]))
    return np.array(found)


@pytest.fixture(scope="module")
def personal(unequal, tmp_path_factory):
    folder = tmp_path_factory.mktemp("own") / "run"
    return hush.run(hush.ditto(3, steps=2, lr=0.5), unequal, 4, evaluate_every=2, folder=folder, progress=False)


def test_records_and_clients_agree_with_a_loop_over_clients(unequal, personal):
    every = accuracies(unequal, np.repeat(personal.vector, 7, axis=0))
    own = accuracies(unequal, personal.state["carry.clients[0]['local']['personal']"][0])
    last, clients = personal.records.iloc[-1], personal.clients
    np.testing.assert_allclose(clients["accuracy"], every, rtol=1e-5)
    np.testing.assert_allclose(clients["personal_accuracy"], own, rtol=1e-5)
    assert last["client_accuracy"] == pytest.approx(every.mean(), rel=1e-5)
    assert last["client_accuracy_worst_tenth"] == pytest.approx(every.min(), rel=1e-5)  # a tenth of seven is one
    assert last["personal_accuracy"] == pytest.approx(own.mean(), rel=1e-5)
    assert last["personal_accuracy_worst_tenth"] == pytest.approx(own.min(), rel=1e-5)


def test_the_report_shows_them_and_resuming_keeps_them(unequal, personal):
    page = (personal.folder / "report.html").read_text()
    assert 'id="own-data"' in page
    assert "accuracy of personal models" in page
    assert (personal.folder / "own_data.png").is_file()
    again = hush.run(hush.ditto(3, steps=2, lr=0.5), unequal, 4, evaluate_every=2, folder=personal.folder, resume=True)
    np.testing.assert_array_equal(again.clients["personal_accuracy"], personal.clients["personal_accuracy"])


def test_where_nobody_has_a_model_of_their_own_it_is_done_when_asked(unequal, quadratic):
    quiet = hush.run(hush.fedavg(steps=1), unequal, 1, progress=False)
    assert "client_accuracy" not in quiet.records.columns
    asked = hush.run(hush.fedavg(steps=1), quadratic, 1, evaluate_clients=True, progress=False)
    assert {"client_loss", "client_loss_worst_tenth"} <= set(asked.records.columns)
    assert "personal_loss" not in asked.records.columns
    refused = hush.run(hush.ditto(steps=1), unequal, 1, evaluate_clients=False, progress=False)
    assert "personal_accuracy" not in refused.records.columns


def test_who_has_no_examples_cannot_be_asked_for_them():
    target = hush.tasks.gaussian_potentials(np.zeros((2, 1)), np.ones((2, 1, 1)))
    with pytest.raises(ValueError, match="evaluate_clients needs clients with examples"):
        hush.run(hush.fedavg(steps=1), target, 1, evaluate_clients=True)
    assert "personal_loss" not in hush.run(hush.ditto(steps=1), target, 1, progress=False).records.columns


def test_the_worst_tenth_by_hand():
    values = np.arange(20.0)[None]
    assert summarised({"accuracy": values})["client_accuracy_worst_tenth"].tolist() == [0.5]
    assert summarised({"loss": values})["client_loss_worst_tenth"].tolist() == [18.5]
