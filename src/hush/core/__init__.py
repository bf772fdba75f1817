"""The contracts of pieces and problems, one round as pure functions, its costs, its ledger, and its addresses."""
