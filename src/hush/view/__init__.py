"""A page over a folder of runs, live while they run: served to this machine alone, and read only."""
