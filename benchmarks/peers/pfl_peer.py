"""pfl 0.6.0: `FederatedAveraging` on `SimulatedBackend` with a `PyTorchModel`, one worker in this process.

Set up the way pfl's own benchmarks are: users as in-memory tensors, `WeightByUser`, a central SGD of rate
one, and clipping through the privacy mechanism that only clips. pfl never shuffles a user's data by itself,
so the user data set is drawn in a new order each time the user takes part (the whole pass for W2, just the
examples needed for W1 and W3).
"""

from __future__ import annotations

import logging

import measure
import numpy as np
import torch
import torch_models
from pfl.aggregate.simulate import SimulatedBackend
from pfl.aggregate.weighting import WeightByUser
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.callback.base import TrainingProcessCallback
from pfl.data.dataset import Dataset
from pfl.data.federated_dataset import FederatedDataset
from pfl.data.sampling import get_user_sampler
from pfl.hyperparam import NNTrainHyperParams
from pfl.metrics import Metrics
from pfl.model.pytorch import PyTorchModel
from pfl.privacy.privacy_mechanism import CentrallyAppliedPrivacyMechanism, NormClippingOnly

import workloads


class Classifier(torch.nn.Module):
    """The module with the two methods that pfl asks for."""

    def __init__(self, module: torch.nn.Module):
        super().__init__()
        self.module = module

    def loss(self, images, labels):
        return torch.nn.functional.cross_entropy(self.module(images), labels)

    def metrics(self, images, labels):
        # pfl always evaluates every user of its first round. Evaluation is nobody's timed work here, so it
        # gets nothing.
        return {}


class ReportRound(TrainingProcessCallback):
    """Tells the clock about a finished round and stops when it says so."""

    def __init__(self, finished: measure.Finished):
        self.finished = finished

    def after_central_iteration(self, aggregate_metrics, model, *, central_iteration):
        return self.finished(central_iteration + 1), Metrics()


class Pfl:
    def __init__(self, workload: workloads.Workload, data: workloads.Data):
        logging.disable(logging.INFO)
        np.random.seed(workload.seed)
        self.workload = workload
        self.generator = np.random.default_rng(workload.seed)
        self.images = torch.from_numpy(workloads.scale(data.train_images))
        self.labels = torch.from_numpy(data.train_labels.astype(np.int64))
        self.classifier = Classifier(torch_models.make_module(workload))
        threads = f"{torch.get_num_threads()} thread(s)"
        sampling = "" if workload.everyone else "; users drawn with replacement"
        self.notes = f"{threads}, one worker{sampling}"
        if self._passes():
            self.notes += f"; {self._passes()} passes in one order, the last batch of each smaller"

    def _passes(self) -> int | None:
        """Passes to make instead of steps where a user has too little data: pfl's steps end with the data."""
        workload = self.workload
        if workload.examples_per_update <= workload.examples_per_client:
            return None
        return workload.local_steps // -(-workload.examples_per_client // workload.batch_size)

    def _user(self, user: int) -> Dataset:
        needed = min(self.workload.examples_per_update, self.workload.examples_per_client)
        order = torch.from_numpy(self.generator.permutation(self.workload.examples_per_client)[:needed])
        return Dataset((self.images[user][order], self.labels[user][order]), user_id=str(user))

    def train(self, rounds: int, finished: measure.Finished) -> None:
        workload = self.workload
        # Cycling through the users is pfl's way to have everybody in every round.
        sampling = "minimize_reuse" if workload.everyone else "random"
        users = FederatedDataset(self._user, get_user_sampler(sampling, range(workload.clients)))
        postprocessors = [WeightByUser()]
        if workload.clip_norm is not None:
            clipping = NormClippingOnly(order=2, clipping_bound=workload.clip_norm)
            postprocessors.append(CentrallyAppliedPrivacyMechanism(clipping))
        model = PyTorchModel(
            model=self.classifier,
            local_optimizer_create=torch.optim.SGD,
            central_optimizer=torch.optim.SGD(self.classifier.parameters(), lr=1.0),
        )
        FederatedAveraging().run(
            algorithm_params=NNAlgorithmParams(
                central_num_iterations=rounds,
                evaluation_frequency=rounds,
                train_cohort_size=workload.clients_per_round,
                val_cohort_size=None,
            ),
            backend=SimulatedBackend(training_data=users, val_data=users, postprocessors=postprocessors),
            model=model,
            model_train_params=NNTrainHyperParams(
                local_learning_rate=workload.learning_rate,
                local_batch_size=workload.batch_size,
                local_num_epochs=self._passes(),
                local_num_steps=None if self._passes() else workload.local_steps,
            ),
            callbacks=[ReportRound(finished)],
            send_metrics_to_platform=False,
        )

    def logits(self, images):
        return torch_models.logits(self.classifier.module, images)


if __name__ == "__main__":
    measure.main("pfl", Pfl, __doc__, variants=torch_models.THREAD_VARIANTS)
