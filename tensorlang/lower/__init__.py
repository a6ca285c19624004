"""From programs to code that runs."""
