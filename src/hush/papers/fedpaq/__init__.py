"""Communication-constrained private federated learning: paper 000."""
