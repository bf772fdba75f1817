"""How rounds are run here: one compiled program over clients, devices and lanes."""
