"""What a plan is made on: what is taken over from the task, and that nothing of it is anybody's."""

import numpy as np
import pytest

from hush.data import datasets
from hush.plans.proxies import CHOICES, KINDS, PROXIES, proxy_of
from hush.settings import build
from hush.settings.schema import schema
from hush.tasks import TASKS

MNIST = {"name": "mnist", "clients": 50, "classes_per_client": 2, "model": "mlp", "model_options": {"hidden": 20}}
DIGITS = {"name": "digits", "clients": 10, "set_aside": 0.3, "partition_seed": 4}


def made(task):
    """The problem that a settings file with this task makes."""
    return build({"algorithm": {"name": "fedavg"}, "task": task}).problem()


class TestAnotherTask:
    def test_takes_what_it_knows(self):
        found = proxy_of(MNIST | {"set_aside": 0.1, "partition_seed": 7}, {"name": "fashion_mnist"})
        assert found.items() >= (MNIST | {"name": "fashion_mnist", "partition_seed": 7}).items()
        assert "set_aside" not in found
        assert build({"algorithm": {"name": "fedavg"}, "task": found}).task["clients"] == 50

    def test_takes_defaults_too(self):
        """Twenty clients are the default of `digits` and of no other task."""
        assert proxy_of({"name": "digits"}, {"name": "fashion_mnist"})["clients"] == 20
        assert proxy_of({"name": "digits"}, {"name": "linear_regression"}) == {
            "name": "linear_regression",
            "clients": 20,
        }

    def test_what_it_gives_itself_comes_first(self):
        found = proxy_of(MNIST | {"overlap": False}, {"name": "fashion_mnist", "clients": 7, "dirichlet": 0.5})
        assert (found["clients"], found["dirichlet"]) == (7, 0.5)
        assert [kind for kind in KINDS if kind in found] == ["dirichlet"]
        assert (found["model"], found["model_options"]) == ("mlp", {"hidden": 20})
        assert "model_options" not in proxy_of(MNIST, {"name": "fashion_mnist", "model": "softmax"})

    def test_a_number_of_examples_keeps_the_kind_of_partition(self):
        task = {"name": "mnist", "clients": 50, "dominant_classes": 2, "examples_per_client": 125}
        found = proxy_of(task, {"name": "fashion_mnist", "examples_per_client": 60})
        assert (found["dominant_classes"], found["examples_per_client"]) == (2, 60)

    @pytest.mark.parametrize("name", PROXIES)
    def test_every_task_can_be_one(self, name):
        """What is taken over is only what the other declares, so that settings can build it."""
        if name == "mnist":
            return
        found = proxy_of(MNIST, {"name": name} if name != "emnist_digits" else {"name": "cifar10"})
        assert set(found) - {"name"} <= set(schema(TASKS[found["name"]]))
        build({"algorithm": {"name": "fedavg"}, "task": found})


class TestMadeUpExamples:
    def test_have_the_sizes_of_the_task(self):
        found = proxy_of(MNIST, {"name": "synthetic"})
        assert found["features"] == [28, 28, 1]
        sizes = [found[name] for name in ("classes", "examples_per_client", "clients", "classes_per_client")]
        assert sizes == [10, 1200, 50, 2]
        assert proxy_of(MNIST | {"set_aside": 0.25}, {"name": "synthetic"})["examples_per_client"] == 900
        assert proxy_of(MNIST, {"name": "synthetic", "features": 30})["features"] == 30

    def test_are_those_of_the_data_itself(self):
        """Sizes without looking, against the sizes of the data that was looked into."""
        for partition in ({}, {"power_law": 1.0}, {"set_aside": 0.2}):
            task = {"name": "digits", "clients": 12} | partition
            stand_in, own = made(proxy_of(task, {"name": "synthetic"})), made(task)
            assert stand_in.train.x.shape[1:] == own.train.x.shape[1:]
            assert stand_in.test.x.shape == own.test.x.shape
            assert stand_in.population.clients == own.population.clients
            assert 0 <= own.population.examples - stand_in.population.examples < 12
            assert stand_in.model.classes == own.model.classes

    def test_for_data_on_devices(self):
        remote = {"name": "remote", "sizes": [10, 20, 31], "shape": [4, 3], "outputs": 5, "model": "mlp"}
        found = proxy_of(remote, {"name": "synthetic", "test_examples": 30})
        problem = made(found)
        assert problem.population.clients == 3
        assert problem.train.x.shape == (60, 4, 3)
        assert (problem.model.name, problem.model.classes) == ("mlp", 5)

    @pytest.mark.parametrize("task", [{"name": "own"}, {"name": "linear_regression"}])
    def test_of_unknown_sizes_are_refused(self, task):
        with pytest.raises(ValueError, match=r"proxy\.(clients|features|examples_per_client): is missing"):
            proxy_of(task, {"name": "synthetic"})
        given = {"name": "synthetic", "clients": 3, "examples_per_client": 9, "features": 5, "classes": 2}
        assert proxy_of(task, given).items() >= given.items()


class TestSetAside:
    def test_no_client_of_the_run_holds_any_of_it(self):
        """Every image of the plan is one of the data set's training images, and none is one of the run's."""
        run, plan = made(DIGITS), made(proxy_of(DIGITS, {"use": "set-aside"}))
        used = images(run.train.x)
        planned = images(plan.train.x) + images(plan.test.x)
        data = datasets.load("digits")
        assert sorted(used + planned) == sorted(images(data.train_x))
        assert not set(planned) & set(images(data.test_x))
        assert plan.population.clients == run.population.clients

    def test_may_be_cut_otherwise(self):
        found = proxy_of(DIGITS | {"dirichlet": 0.3}, {"use": "set-aside", "clients": 5, "power_law": 1.0})
        assert found == DIGITS | {"use": "set-aside", "clients": 5, "power_law": 1.0}
        assert proxy_of(DIGITS, {"name": "digits", "use": "set-aside"}) == DIGITS | {"use": "set-aside"}


@pytest.mark.parametrize("proxy", [None, {}])
def test_no_proxy_is_refused_with_the_choices(proxy):
    with pytest.raises(ValueError, match=r"name = \"synthetic\"(.|\n)*use = \"set-aside\"") as refusal:
        proxy_of(MNIST, proxy)
    assert str(refusal.value) == CHOICES


@pytest.mark.parametrize(
    ("task", "proxy", "message"),
    [
        (MNIST, {"name": "mnist"}, "no data but the task's own"),
        (MNIST, {"clients": 5}, "no data but the task's own"),
        (MNIST, {"use": "set-aside"}, "needs task.set_aside"),
        (MNIST, {"use": "set-aside", "set_aside": 0.1}, "needs task.set_aside"),
        ({"name": "linear_regression"}, {"use": "set-aside"}, "needs task.set_aside"),
        (DIGITS, {"use": "rest"}, "must be \"set-aside\", found 'rest'"),
        (DIGITS, {"use": "set-aside", "set_aside": 0.2}, "must be the task's own, 0.3"),
        (DIGITS, {"use": "set-aside", "partition_seed": 0}, "must be the task's own, 4"),
        (DIGITS, {"name": "mnist", "use": "set-aside"}, "about the task's own data, found it with mnist"),
        (MNIST, {"name": "fashion"}, "did you mean 'fashion_mnist'"),
        (MNIST, {"name": "remote"}, "unknown proxy 'remote'"),
        (MNIST, {"name": ["mnist"]}, "unknown proxy"),
        (MNIST, {"name": "emnist_digits"}, "may have examples that are also in mnist"),
        (MNIST, {"name": "synthetic", "seperation": 2.0}, "did you mean 'separation'"),
    ],
)
def test_what_is_refused(task, proxy, message):
    with pytest.raises(ValueError, match=message):
        proxy_of(task, proxy)


def images(table):
    return [image.tobytes() for image in np.asarray(table)]
