"""Programs under JAX's transformations: linearised, transposed and batched as programs, and bound as one primitive."""
