"""Federated averaging Langevin dynamics: paper fa-ld."""
