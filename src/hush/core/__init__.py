"""The heart: the contract, the engine, and the keys that every draw comes from."""

from hush.core.mesh import one_device_per_core

one_device_per_core()  # before anything makes JAX start
