"""Four CPU devices, whatever the machine has, so that one device = several can be tested; and shared small problems."""

import gc
import os
import signal
from importlib import metadata
from pathlib import Path

os.environ.setdefault("JAX_NUM_CPU_DEVICES", "4")
# Small programs: compiling them well costs more than it gains.
os.environ.setdefault(
    "XLA_FLAGS",
    "--xla_cpu_multi_thread_eigen=false --xla_backend_optimization_level=0"
    # A flag that XLA does not know would end the process. Compiled in one piece: cutting a small program up costs more.
    + (
        " --xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"
        if metadata.version("jaxlib").startswith("0.10.")
        else ""
    ),
)
# Where in the source each operation was traced is of no use to a test, and takes a twentieth of the time.
os.environ.setdefault("JAX_TRACEBACK_IN_LOCATIONS_LIMIT", "0")
os.environ.setdefault("HUSH_OFFLINE", "1")
# What one worker, or an earlier run, has compiled.
os.environ.setdefault("HUSH_COMPILATION_CACHE", str(Path(__file__).parents[1] / ".compiled"))

import jax
import numpy as np
import pytest
from hypothesis import settings

import hush

# The same cases every time: what fails here fails everywhere.
settings.register_profile("fixed", derandomize=True, deadline=None)
settings.load_profile("fixed")

# A job in the background, or one under nohup, ignores signals, and so would all that it starts: tests are to hear them.
for _number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    if signal.getsignal(_number) == signal.SIG_IGN:
        signal.signal(_number, signal.default_int_handler if _number == signal.SIGINT else signal.SIG_DFL)


# Every compiled program is mapped into memory by itself; Linux allows a process 65,530 such places, and no more.
MANY_MAPS = 25_000


def make_room():
    """Forget compiled programs before there are too many for one process, which would end it."""
    maps = Path("/proc/self/maps")
    if maps.exists() and maps.read_bytes().count(b"\n") > MANY_MAPS:
        jax.clear_caches()
        gc.collect()


def pytest_collection_finish():
    """Modules and tests stay: looking through them for garbage again and again takes a tenth of the time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 20, 20)


@pytest.fixture(scope="module", autouse=True)
def _room():
    make_room()


@pytest.fixture(scope="session")
def room():
    """`make_room`, for tests that compile very many programs."""
    return make_room


@pytest.fixture(scope="session")
def matrices():
    """Six clients' quadratics f_i(x) = ½‖A_i x − b_i‖², well enough conditioned for a step of 0.05."""
    draws = np.random.default_rng(7)
    return draws.normal(size=(6, 4, 3)), draws.normal(size=(6, 4))


@pytest.fixture(scope="session")
def quadratic(matrices):
    return hush.tasks.quadratic(*matrices)


@pytest.fixture(scope="session")
def unequal():
    """Seven clients with 1 to 13 examples, a linear model with 3 classes."""
    draws = np.random.default_rng(3)
    sizes = [1, 13, 4, 5, 2, 8, 7]
    x = draws.normal(size=(sum(sizes), 5)).astype(np.float32)
    y = draws.integers(0, 3, sum(sizes))
    return hush.tasks.arrays(x, y, np.repeat(np.arange(7), sizes), model="softmax", test=(x[:9], y[:9]))


@pytest.fixture(scope="session")
def any_floats():
    """A function that draws finite 32-bit numbers with exponents anywhere in a range, some of them zero."""

    def draw(seed, shape, lowest=-149, highest=127):
        draws = np.random.default_rng(seed)
        signed = draws.uniform(1, 2, shape) * draws.choice([-1, 1, 1, -1, 0], shape)
        numbers = np.ldexp(signed, draws.integers(lowest, highest + 1, shape))
        largest = float(np.finfo(np.float32).max)
        return np.clip(numbers, -largest, largest).astype(np.float32)

    return draw


@pytest.fixture
def unpainted(monkeypatch):
    """Figures are made but not painted, which takes seconds a page: for tests of what else a run folder holds."""

    def blank(figure, target, format=None, **_):
        target.write('<svg width="1" height="1"></svg>' if format == "svg" else b"\x89PNG\r\n\x1a\n")

    monkeypatch.setattr("matplotlib.figure.Figure.savefig", blank)
    monkeypatch.setattr("matplotlib.figure.Figure.draw_without_rendering", lambda figure: None)
