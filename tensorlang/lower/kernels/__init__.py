"""Lowering to Pallas: kernels over tiles, for accelerators."""
