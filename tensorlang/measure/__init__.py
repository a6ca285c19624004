"""Measuring programs compiled by XLA, and the machine."""
