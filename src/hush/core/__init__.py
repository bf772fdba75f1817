"""The contracts of pieces and problems, one round as pure functions, its costs and its ledger, and the addresses of its draws."""
