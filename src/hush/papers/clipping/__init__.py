"""Clipping and client-level privacy: paper 002."""
