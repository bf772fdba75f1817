"""Makes each CPU core a device of JAX's.

Left alone, a CPU is one device with many threads; for the small matrix products of a client that is slower than one
single-threaded device per core with a part of the cohort on each. It must be said before JAX starts, hence on importing
hush, and is never said over a user's own choice.
"""

import os
import sys

# Each device keeps a copy of the data: more than these would cost memory before they gain time.
MOST_DEVICES = 16

FLAG, VARIABLE = "xla_force_host_platform_device_count", "JAX_NUM_CPU_DEVICES"
# One thread for each device; vectors of 512 bits where a core has them, in which noise is drawn in two thirds of the
# time, and rounds without noise in the same.
OURS = {"xla_cpu_multi_thread_eigen": "false", "xla_cpu_prefer_vector_width": "512"}
# Whether the user has said how many there are to be, before we did.
users_own = VARIABLE in os.environ or FLAG in os.environ.get("XLA_FLAGS", "")


def devices() -> int:
    """How many CPU devices this process has by itself: one for each core that it may use."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores, MOST_DEVICES)


def one_device_per_core() -> None:
    """One CPU device per core, unless JAX has started or the user has chosen a number."""
    flags = os.environ.get("XLA_FLAGS", "")
    if VARIABLE in os.environ or FLAG in flags:
        return
    if "jax" in sys.modules:  # too late for the environment: its settings have been read
        config = sys.modules["jax"].config
        if config.values["jax_num_cpu_devices"] != -1:
            return
        try:
            config.update("jax_num_cpu_devices", devices())
        except RuntimeError:  # JAX has started: its devices stay as they are
            return
    else:
        os.environ[VARIABLE] = str(devices())
    for name, value in OURS.items():
        if name not in flags:
            flags = f"{flags} --{name}={value}".strip()
    os.environ["XLA_FLAGS"] = flags


def compile_quickly() -> None:
    """For many programs that each run for a second or two: compiled in two thirds of the time, and a tenth slower.

    Measured with softmax regression; without LLVM's optimisation altogether they would be ten times slower. Does
    nothing once JAX has started, nor over the user's own choice.
    """
    flags = os.environ.get("XLA_FLAGS", "")
    if "jax" not in sys.modules and "xla_backend_optimization_level" not in flags:
        os.environ["XLA_FLAGS"] = f"{flags} --xla_backend_optimization_level=1".strip()
