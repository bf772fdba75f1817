"""Federated averaging Langevin dynamics: paper 004."""
