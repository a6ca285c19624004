"""Measuring what XLA compiles, and the machine."""
