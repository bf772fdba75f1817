"""The rows of `gpu.py` in PyTorch, three ways: a loop over clients, the same as a CUDA graph, and one `vmap` of all.

The networks are hush's, layer by layer: as many parameters, normalised over groups of channels. Half precision is
PyTorch's own, `autocast`. A round is a cohort of clients that each start from the server's model, take their steps on
batches of their own, and are averaged. Data lies on the device, as in hush.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from math import prod

import torch
from torch import nn
from torch.func import functional_call, grad, stack_module_state, vmap

CLASSES = 10
LR = 0.05
# expansion, output channels, blocks, stride of the first block
INVERTED = (
    (1, 16, 1, 1),
    (6, 24, 2, 1),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)
Batches = tuple[torch.Tensor, torch.Tensor]
Values = dict[str, torch.Tensor]
Round = Callable[[], list[torch.Tensor]]  # makes one, and says where the server's model is then


class Beside(nn.Module):
    """The sum of two ways through."""

    def __init__(self, branch: nn.Module, shortcut: nn.Module) -> None:
        super().__init__()
        self.branch, self.shortcut = branch, shortcut

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.branch(x) + self.shortcut(x)


def normalised(inputs: int, outputs: int, window: int, stride: int = 1, groups: int = 1) -> nn.Sequential:
    """A convolution without bias, then the largest number of groups up to 32 that divides its channels."""
    parts = max(count for count in range(1, min(32, outputs) + 1) if outputs % count == 0)
    convolution = nn.Conv2d(inputs, outputs, window, stride, window // 2, groups=groups, bias=False)
    return nn.Sequential(convolution, nn.GroupNorm(parts, outputs))


def mlp(shape: tuple[int, int, int]) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(prod(shape), 200), nn.ReLU(), nn.Linear(200, CLASSES))


def lenet5(shape: tuple[int, int, int]) -> nn.Module:
    height, width, channels = shape
    padding = 2 if min(height, width) < 32 else 0
    pixels = prod(((size + 2 * padding - 4) // 2 - 4) // 2 for size in (height, width))
    first = (nn.Conv2d(channels, 6, 5, padding=padding), nn.MaxPool2d(2), nn.ReLU())
    second = (nn.Conv2d(6, 16, 5), nn.MaxPool2d(2), nn.ReLU(), nn.Flatten())
    linear = (nn.Linear(16 * pixels, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, CLASSES))
    return nn.Sequential(*first, *second, *linear)


def resnet18(shape: tuple[int, int, int]) -> nn.Module:
    layers: list[nn.Module] = [normalised(shape[-1], 64, 3), nn.ReLU()]
    inputs = 64
    for outputs, first in ((64, 1), (128, 2), (256, 2), (512, 2)):
        for stride in (first, 1):
            branch = (normalised(inputs, outputs, 3, stride), nn.ReLU(), normalised(outputs, outputs, 3))
            alike = stride == 1 and inputs == outputs
            shortcut = nn.Identity() if alike else normalised(inputs, outputs, 1, stride)
            layers += [Beside(nn.Sequential(*branch), shortcut), nn.ReLU()]
            inputs = outputs
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, CLASSES))


def mobilenet_v2(shape: tuple[int, int, int]) -> nn.Module:
    layers: list[nn.Module] = [normalised(shape[-1], 32, 3), nn.ReLU6()]
    inputs = 32
    for expansion, outputs, blocks, first in INVERTED:
        for index in range(blocks):
            stride, hidden = first if index == 0 else 1, expansion * inputs
            wide = (
                normalised(inputs, hidden, 1),
                nn.ReLU6(),
                normalised(hidden, hidden, 3, stride, hidden),
                nn.ReLU6(),
            )
            branch = nn.Sequential(*wide, normalised(hidden, outputs, 1))
            shortcut = nn.Identity() if inputs == outputs else normalised(inputs, outputs, 1)
            layers.append(branch if stride != 1 else Beside(branch, shortcut))
            inputs = outputs
    last = (normalised(inputs, 1280, 1), nn.ReLU6(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(1280, CLASSES))
    return nn.Sequential(*layers, *last)


NETWORKS = {"mlp": mlp, "lenet5": lenet5, "resnet18": resnet18, "mobilenet_v2": mobilenet_v2}


class Work:
    """A network on its device, and batches for the steps of a round."""

    def __init__(self, model: str, shape: tuple[int, int, int], clients: int, steps: int, batch: int, half: bool):
        self.clients, self.steps, self.half = clients, steps, half
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        torch.manual_seed(0)
        self.module = NETWORKS[model](shape).to(self.device)
        height, width, channels = shape
        self.images = torch.rand(clients, 2 * batch, channels, height, width, device=self.device)
        self.labels = torch.randint(CLASSES, (clients, 2 * batch), device=self.device)
        self.batch = batch

    def loss(self, values: Values, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.half):
            found = functional_call(self.module, values, (images,))
        return nn.functional.cross_entropy(found.float(), labels)

    def batches(self, clients: torch.Tensor) -> Iterator[Batches]:
        """For every step [clients, batch, …]."""
        for _ in range(self.steps):
            chosen = torch.randint(2 * self.batch, (len(clients), self.batch), device=self.device)
            yield self.images[clients[:, None], chosen], self.labels[clients[:, None], chosen]

    def done(self) -> None:
        """Wait for what was asked of a GPU."""
        if self.device.type == "cuda":
            torch.cuda.synchronize()


def _stepping(work: Work, own: Values) -> Callable[[torch.Tensor, torch.Tensor], None]:
    """One client's step, in place."""
    leaves = list(own.values())

    def step(images: torch.Tensor, labels: torch.Tensor) -> None:
        found = torch.autograd.grad(work.loss(own, images, labels), leaves)
        with torch.no_grad():
            torch._foreach_add_(leaves, found, alpha=-LR)

    return step


def _looped(work: Work, graph: bool) -> Round:
    """One client after another."""
    server = [value.detach().clone() for value in work.module.parameters()]
    own = {name: value.detach().clone().requires_grad_() for name, value in work.module.named_parameters()}
    step = _stepping(work, own)
    step = _captured(work, step) if graph else step

    def one_round() -> list[torch.Tensor]:
        total = [torch.zeros_like(value) for value in server]
        for client in torch.arange(work.clients, device=work.device):
            with torch.no_grad():
                torch._foreach_copy_(list(own.values()), server)
            for images, labels in work.batches(client[None]):
                step(images[0], labels[0])
            with torch.no_grad():
                torch._foreach_add_(total, list(own.values()), alpha=1 / work.clients)
        server[:] = total
        return server

    return one_round


def _captured(
    work: Work, step: Callable[[torch.Tensor, torch.Tensor], None]
) -> Callable[[torch.Tensor, torch.Tensor], None]:
    """The same step, recorded once and replayed on what is copied to where it reads."""
    images, labels = (
        part[0].clone() for part in next(work.batches(torch.zeros(1, dtype=torch.long, device=work.device)))
    )
    aside = torch.cuda.Stream()
    aside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(aside):  # libraries choose their kernels before they are recorded
        for _ in range(3):
            step(images, labels)
    torch.cuda.current_stream().wait_stream(aside)
    recorded = torch.cuda.CUDAGraph()
    with torch.cuda.graph(recorded):
        step(images, labels)

    def replayed(new_images: torch.Tensor, new_labels: torch.Tensor) -> None:
        images.copy_(new_images)
        labels.copy_(new_labels)
        recorded.replay()

    return replayed


def _mapped(work: Work) -> Round:
    """All clients at once: `torch.func.vmap` over their models, compiled where there is a GPU."""
    gradients = vmap(grad(work.loss))

    def step(own: Values, images: torch.Tensor, labels: torch.Tensor) -> Values:
        found = gradients(own, images, labels)
        return {name: value - LR * found[name] for name, value in own.items()}

    step = torch.compile(step) if work.device.type == "cuda" else step
    stacked, _ = stack_module_state([work.module] * work.clients)
    server = {name: value.detach()[0] for name, value in stacked.items()}
    everyone = torch.arange(work.clients, device=work.device)

    def one_round() -> list[torch.Tensor]:
        own = {name: value.expand(work.clients, *value.shape).contiguous() for name, value in server.items()}
        for images, labels in work.batches(everyone):
            own = step(own, images, labels)
        server.update({name: value.mean(0) for name, value in own.items()})
        return list(server.values())

    return one_round


WAYS: dict[str, Callable[[Work], Round]] = {
    "loop": lambda work: _looped(work, graph=False),
    "graph": lambda work: _looped(work, graph=True),
    "vmap": _mapped,
}


def measured(way: str, work: Work, stretches: int, rounds: int) -> dict[str, float | str]:
    """Client-steps a second, the best of so many stretches, and the seconds to the end of the first round."""
    begun = time.perf_counter()
    one_round = WAYS[way](work)
    one_round()
    work.done()
    first, spent = time.perf_counter() - begun, []
    for _ in range(stretches):
        start = time.perf_counter()
        for _ in range(rounds):
            one_round()
        work.done()
        spent.append(time.perf_counter() - start)
    name = torch.cuda.get_device_name() if work.device.type == "cuda" else "cpu"
    rate = rounds * work.clients * work.steps / min(spent)
    at_once = work.clients if way == "vmap" else 1
    return {"rate": rate, "first": first, "at_once": at_once, "device": name, "torch": torch.__version__}
