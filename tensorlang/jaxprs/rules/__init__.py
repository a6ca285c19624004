"""Rules by primitives: from abstract values of the operands to those of the results, one module for each family.

A rule is a function of the builder, the equation and the operands' values; it returns a value, or a list of values for
a primitive with several results, and raises `Unsupported` if there is no tensor program.
"""

from tensorlang.jaxprs.rules import (
    conditions,
    contractions,
    control,
    elementwise,
    loops,
    places,
    reductions,
    signs,
    structure,
    updates,
)
from tensorlang.jaxprs.rules.table import RULES

__all__ = [
    "RULES",
    "conditions",
    "contractions",
    "control",
    "elementwise",
    "loops",
    "places",
    "reductions",
    "signs",
    "structure",
    "updates",
]
