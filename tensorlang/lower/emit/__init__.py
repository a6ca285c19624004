"""Text: Python's expressions and statements, names, the generated module, and the functions that it copies."""
