"""The heart: the contract, the engine, and the keys that every draw comes from."""
