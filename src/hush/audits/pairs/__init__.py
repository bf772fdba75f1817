"""The audit by neighbouring pairs: the strongest attack, on a problem crafted for the worst case."""

from hush.audits.pairs.audit import audit_pairs
from hush.audits.pairs.lanes import Store

__all__ = ["Store", "audit_pairs"]
