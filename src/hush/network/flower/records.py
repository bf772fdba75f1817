"""The names under which bytes lie in Flower's messages."""

# Apart, so that what all nodes are told goes to the SuperLink once: it knows records by their digests.
TOLD, ANSWER, NONCE = "told", "answer", "nonce"
