"""Communication-constrained private federated learning: paper fedpaq-dp."""
