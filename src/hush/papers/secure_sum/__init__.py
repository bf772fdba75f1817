"""Only the sum: what whole numbers cost beside ideal noise, and what trust in a sum is worth."""
