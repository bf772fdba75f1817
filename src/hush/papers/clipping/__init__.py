"""Clipping and client-level privacy: paper clipping."""
