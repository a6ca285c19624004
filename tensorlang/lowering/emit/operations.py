"""How operations of array programs are called in Python. All others are parts of the library, under their own names."""

SPELLED = {
    "arange": "jnp.arange",
    "asarray": "jnp.asarray",
    "broadcast_to": "jnp.broadcast_to",
    "clip": "jnp.clip",
    "concatenate": "jnp.concatenate",
    "dynamic_slice": "lax.dynamic_slice",
    "dynamic_slice_in_dim": "lax.dynamic_slice_in_dim",
    "einsum": "jnp.einsum",
    "flip": "jnp.flip",
    "full": "jnp.full",
    "greatest": "max",
    "least": "min",
    "maximum": "jnp.maximum",
    "minimum": "jnp.minimum",
    "result_type": "jnp.result_type",
    "select": "lax.select_n",
    "sum": "jnp.sum",
    "take": "jnp.take",
    "vdot": "jnp.vdot",
    "where": "jnp.where",
}
"""Their names in generated code."""
