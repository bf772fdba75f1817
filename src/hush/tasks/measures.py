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


def next_token(logits: jax.Array, targets: jax.Array) -> Measured:
    """Of one window, logits [length, vocabulary] and tokens [length]: the means over its tokens but those below 0.

    Cross-entropy in nats, and whether the likeliest token is the next one.
    """
    counted = targets >= 0
    tokens = jnp.maximum(targets, 0)
    right = jnp.take_along_axis(logits, tokens[:, None], axis=1)[:, 0]
    each = {
        "loss": jax.nn.logsumexp(logits, axis=1) - right,
        "accuracy": (jnp.argmax(logits, axis=1) == tokens).astype(jnp.float32),
    }
    total = jnp.maximum(jnp.sum(counted), 1)
    return {name: jnp.sum(jnp.where(counted, value, 0)) / total for name, value in each.items()}


def perplexity(measured: Measured) -> Measured:
    """exp of the loss of a token, where the mean is over all tokens of the test."""
    return {"perplexity": jnp.exp(measured["test_loss"])} if "test_loss" in measured else {}


MEASURES = {"classification": classification, "regression": regression, "binary": binary}
# What follows from some measures of all examples together.
DERIVED = {next_token: perplexity}
