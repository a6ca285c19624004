"""Figures 13 to 17: the total derivative, and the adjoint by rewriting inner products."""
