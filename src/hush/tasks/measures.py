"""What one prediction is worth: (output, target) -> loss, and what else is measured. One example each."""

import jax
import jax.numpy as jnp

Measured = dict[str, jax.Array]


def classification(logits: jax.Array, label: jax.Array) -> Measured:
    """Cross-entropy, and whether the likeliest class is the right one."""
    chosen = jnp.argmax(logits) == label
    return {"loss": jax.nn.logsumexp(logits) - logits[label], "accuracy": chosen.astype(jnp.float32)}


def regression(output: jax.Array, target: jax.Array) -> Measured:
    """½‖output − target‖²."""
    return {"loss": 0.5 * jnp.sum((jnp.ravel(output) - jnp.ravel(target)) ** 2)}


def binary(logit: jax.Array, label: jax.Array) -> Measured:
    """Logistic loss for labels 0 and 1, and accuracy."""
    logit = jnp.ravel(logit)[0]
    loss = jnp.logaddexp(0, logit) - label * logit
    return {"loss": loss, "accuracy": ((logit > 0) == (label > 0.5)).astype(jnp.float32)}


MEASURES = {"classification": classification, "regression": regression, "binary": binary}
