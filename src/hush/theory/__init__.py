"""What the papers prove: constants of a problem and a setting in, a bound out. One file for each paper."""

from hush.theory import fedpaq
from hush.theory.constants import Constants, estimate

__all__ = ["Constants", "estimate", "fedpaq"]
