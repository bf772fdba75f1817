"""Over-the-air aggregation with and without aligned signals: paper alignment."""
