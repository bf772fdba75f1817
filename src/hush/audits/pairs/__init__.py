"""The audit by neighbouring pairs: the strongest attack, on a problem crafted for the worst case."""

from hush.audits.pairs.audit import Store, audit_pairs

__all__ = ["Store", "audit_pairs"]
