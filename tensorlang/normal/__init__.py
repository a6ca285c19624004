"""Figures 7 to 12: the four passes to tensor SSA."""
