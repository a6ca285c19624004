"""Figure 6: the cost of a program."""
