"""Which operations compute the arrays of a plan.

scope            where an expression is evaluated, and what all statements share
integers         static integers: sizes and what is made of them
expressions      scalar expressions over named axes
accesses         slices, gathers, reads among zeros
masks, brackets  predicates as boolean arrays; brackets as shorter axes, zeros around them, and masks
only_if          what steps compute only if a condition holds
membership       whether data have a point, as a table
concatenate      pieces next to each other, or in turns
extrema          the greatest and least along an axis; `segment_extrema` those at points that data give
select_in_window elements of index arrays of short ranges
points           relations given by their points
sums/            the ways to compute a sum, each a value
decisions        what was decided, and why
rename           array programs under other names, to stand in another one
"""
