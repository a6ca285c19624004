"""Figures 3 to 5: the language, its meaning, and how it is written."""

import tensorlang.language.special  # noqa: F401  registers more scalar functions
