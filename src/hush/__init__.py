"""hush: federated learning where devices keep their data, say little, and stay private."""

from hush.core.mesh import one_device_per_core

one_device_per_core()
