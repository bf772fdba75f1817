"""Samples as a run goes: every so many rounds after a warm-up, the model of each lane is one.

They are streamed to a file of the run folder, or kept in memory, never more than so many: when those are full every
second one is dropped, and from then on twice as many rounds lie between two. Predictions on the test set are averaged
over all samples as they come, kept or not.
"""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from hush.core.columns import SCORES
from hush.execution import hosts, mesh
from hush.posterior import Posterior, prediction
from hush.runs.advancing import Advancing
from hush.runs.predicting import of_each_lane
from hush.settings.run import MOST_SAMPLES
from hush.store import RunFolder
from hush.store.files import SAMPLES

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Thinning:
    """When a sample is taken, and how many are kept in memory."""

    every: int
    warm_up: int = 0
    most: int = MOST_SAMPLES

    def after(self, number: int) -> int:
        """The first round after this one that gives a sample."""
        beyond = max(number - self.warm_up, 0)
        return self.warm_up + (beyond // self.every + 1) * self.every

    def round_of(self, index: Array) -> Array:
        """The round of the `index`-th sample, from 0."""
        return self.warm_up + (index + 1) * self.every


_add = jax.jit(jnp.add, donate_argnums=0)
_scores = jax.jit(jax.vmap(prediction.scores_of, (0, None)))


def predictions(simulation: Advancing) -> jax.Array:
    """What every lane's model thinks of the test examples [lanes, n, classes]."""
    return of_each_lane(prediction.probabilities, simulation.placed, simulation.server["model"], simulation.layout)


class Samples:
    """The samples of all lanes so far, and the average of their predictions."""

    def __init__(self, thinning: Thinning, simulation: Advancing, files: RunFolder | None) -> None:
        if (devices := simulation.problem.devices_per_model) > 1:
            raise ValueError(
                f"samples are kept in the order of a model's own arrays, found one that is cut over {devices} devices; "
                "leave sample_every out, or do not cut the model"
            )
        self.thinning, self._simulation = thinning, simulation
        self.taken = 0  # how many there were
        self._stride, self._kept = 1, list[Array]()
        self._files = files
        self._predicts = prediction.is_classifier(simulation.problem)
        self._sums: jax.Array | None = None

    def take(self) -> None:
        """The lanes' models, as they are now."""
        self._keep(self._simulation.models.astype(np.float32))
        self.taken += 1
        if self._predicts:
            new = predictions(self._simulation)
            self._sums = new if self._sums is None else _add(self._sums, new)

    def _keep(self, models: Array) -> None:
        if self._files is not None:
            self._files.add_sample(models)
        elif self.taken % self._stride == 0:
            self._kept.append(models)
            if len(self._kept) > self.thinning.most:
                self._kept, self._stride = self._kept[::2], 2 * self._stride

    @property
    def average(self) -> Array | None:
        """Each lane's predictions, averaged over its samples [lanes, n, classes]."""
        return None if self._sums is None else np.asarray(hosts.fetch(self._sums)) / self.taken

    def scores(self) -> dict[str, Array]:
        """Of the averaged predictions, as columns of the records; not a number before the first sample."""
        if not self._predicts:
            return {}
        if self._sums is None:
            nothing = np.full(len(self._simulation.lanes), np.nan)
            return {f"predictive_{name}": nothing for name in SCORES}
        found = _scores(self._sums / self.taken, prediction.labels(self._simulation.placed))
        return {f"predictive_{name}": values for name, values in hosts.fetch(found).items()}

    def posterior(self, settings: dict[str, Any]) -> Posterior | None:
        """All that was kept; nothing before the first sample."""
        if self.taken == 0:
            return None
        lanes, dimension = self._simulation.models.shape
        if self._files is not None:
            path = SAMPLES.path(self._files.path)
            if not hosts.speaks() and not path.is_file():  # on a disk of process 0's own
                return None
            values: Array = np.memmap(path, np.float32, "r", shape=(self.taken, lanes, dimension))
        else:
            values = np.array(self._kept)
        rounds = self.thinning.round_of(np.arange(self.taken)[:: self._stride])
        chains = [{"repetition": lane.repetition} | lane.settings for lane in self._simulation.lanes]
        return Posterior(values, self._simulation.problem, rounds, chains, settings)

    def state(self) -> dict[str, Array]:
        """All that a checkpoint must hold; of what is streamed to a file, how much of that there is."""
        found = {"samples/taken": np.array(self.taken), "samples/stride": np.array(self._stride)}
        found |= {"samples/kept": np.array(self._kept)} if self._kept else {}
        found |= {} if self._files is None else {"samples/file": np.array(self._files.samples_so_far())}
        return found | ({} if self._sums is None else {"samples/predicted": np.asarray(hosts.fetch(self._sums))})

    def restore(self, state: dict[str, Array]) -> None:
        """Go on from a checkpoint: samples after it are taken again."""
        if "samples/taken" not in state:
            raise ValueError("the checkpoint is of a run without samples; start a new one to take some")
        self.taken, self._stride = int(state["samples/taken"]), int(state["samples/stride"])
        self._kept = list(state.get("samples/kept", ()))
        if "samples/predicted" in state:
            self._sums = mesh.place(jnp.asarray(state["samples/predicted"]), self._simulation.layout.mesh, mesh.LANES)
        if self._files is None:
            return
        if self._stride > 1:
            raise ValueError("the samples so far were thinned in memory, but a run folder has all of them")
        length, checksum = (int(number) for number in state.get("samples/file", (0, 0)))
        self._files.keep_samples(length, checksum)
        for models in self._kept:  # the run so far was in memory, and saved afterwards
            self._files.add_sample(models)
        self._kept = []
