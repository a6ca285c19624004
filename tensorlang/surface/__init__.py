"""The two ways to write a program: text and Python."""
