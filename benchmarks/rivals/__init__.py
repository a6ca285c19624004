"""Programs for systems that aren't NumPy-like: translated from ours (Halide), or written for them (tensorgrad)."""
