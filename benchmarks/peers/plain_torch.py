"""A plain PyTorch loop: one process, one client after another, autograd and in-place steps.

What a careful researcher writes without any federated library. All data is converted to float tensors once,
batches are gathered by index, and the update is one fused in-place operation over the parameters.
"""

from __future__ import annotations

import measure
import numpy as np
import torch
import torch_models

import workloads


class PlainTorch:
    notes = ""

    def __init__(self, workload: workloads.Workload, data: workloads.Data):
        self.workload = workload
        self.generator = np.random.default_rng(workload.seed)
        self.images = torch.from_numpy(workloads.scale(data.train_images))
        self.labels = torch.from_numpy(data.train_labels.astype(np.int64))
        self.module = torch_models.make_module(workload)
        self.parameters = list(self.module.parameters())
        self.notes = f"{torch.get_num_threads()} thread(s)"

    def train(self, rounds: int, finished: measure.Finished) -> None:
        server = [parameter.detach().clone() for parameter in self.parameters]
        for round_number in range(rounds):
            total = [torch.zeros_like(value) for value in server]
            for client in workloads.cohort(self.workload, self.generator):
                torch._foreach_add_(total, self._client_update(int(client), server))
            torch._foreach_add_(server, total, alpha=1 / self.workload.clients_per_round)
            if finished(round_number + 1):
                break
        self._load(server)

    def _load(self, values: list[torch.Tensor]) -> None:
        with torch.no_grad():
            torch._foreach_copy_(self.parameters, values)

    def _client_update(self, client: int, server: list[torch.Tensor]) -> list[torch.Tensor]:
        self._load(server)
        images, labels = self.images[client], self.labels[client]
        for indices in torch.from_numpy(workloads.batch_indices(self.workload, self.generator)):
            loss = torch.nn.functional.cross_entropy(self.module(images[indices]), labels[indices])
            gradients = torch.autograd.grad(loss, self.parameters)
            with torch.no_grad():
                torch._foreach_add_(self.parameters, gradients, alpha=-self.workload.learning_rate)
        with torch.no_grad():
            update = torch._foreach_sub(self.parameters, server)
            if self.workload.clip_norm is not None:
                norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(update)))
                torch._foreach_mul_(update, torch.clamp(self.workload.clip_norm / norm, max=1.0))
        return update

    def logits(self, images):
        return torch_models.logits(self.module, images)


if __name__ == "__main__":
    measure.main("plain_torch", PlainTorch, __doc__, variants=torch_models.THREAD_VARIANTS)
