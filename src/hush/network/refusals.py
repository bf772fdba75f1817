"""The one word for no: whoever is asked for what it must not do says it, without waiting for JAX."""


class Refused(ValueError):
    """What was asked is not done."""
