"""Figure 6: what a program costs."""
