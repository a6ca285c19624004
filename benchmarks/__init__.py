"""Benchmarks: what tensorlang's gradients cost beside those of others. `python -m benchmarks --help` says more.

programs/     the programs, a module for each family: text, the same for JAX and PyTorch, the best JAX by hand
case.py       what a program comes with; its arguments at given sizes
reference.py  the answers, in double precision
peers.py      the ways to compute a case's gradient: ours, JAX's, by hand, PyTorch, and optional others
rivals/       our programs, translated for those that aren't NumPy-like: Halide, tensorgrad
measure.py    running them in turns
scaling.py    time, operations and memory against size; exponents
statements.py how long programs of 100, 1,000 and 10,000 statements take to differentiate
first.py      the way to the first gradient, in a first and in a second process, beside JAX's
calls.py      what a call with small arrays costs
report.py     JSON, table, plots
"""

from __future__ import annotations

import os

os.environ.setdefault("TENSORLANG_CACHE", "off")  # measured work is done, not read from disk
