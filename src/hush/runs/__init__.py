"""A run from its settings to its result: loop, limits, progress, samples, and what may end it."""
