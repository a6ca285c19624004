"""Which arrays exist, where and how they lie: passes from a simplified function to a plan.

dependence      indices that an expression depends on; accesses and chains of lets taken apart
numbers         the numbers that indices and sizes are become arrays
quotients       quotients of indices by constants are read from arrays
in_step         products that steps compute, rather than read them from an array for all times
sums_in_step    sums over axes of what steps give, rather than of an array that has it for all times
read_products   products that steps store anyway, read in place of their factors
read_states     short sums of states, computed from the states again rather than stored by steps
stored_choices  places that steps choose, stored in place of what they are chosen from
read_parts      states of which a part is kept over the time
short_windows   indices to which conditions leave few places
needless_masks  masks of the time that hide nothing but zeros
reroll          statements of the same form become one statement over an axis
inline          elements computed where they are read
running_products  triangles of products, computed where they are summed, of `products` under `ties`
axis_order      arrays of short rows, transposed, and arrays along whose axes greatest values are taken
fuse_sums       sums over the same range in one pass
triangular      arrays cut into blocks of rows
materialize     arrays that XLA must store
asked_first     conditions that steps ask before they compute a sum
windows         recurrences computed window by window of their times, with the sums of what their steps give
slices          steps that are given elements of sequences at their own time
due             recurrences in steps that need not run unless a condition holds
guards          implied conditions that compare sizes or hide a corner
needless_guards brackets that keep extrema from being empty, where nobody reads them if they are
check           whether a plan is well formed, and if not, why
"""
