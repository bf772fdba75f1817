"""A run folder in, pages and pictures out."""
