"""The ways to compute a sum: `strategies` has them in the order in which they are tried.

    Summation (indices, conditions, body)  --the first Strategy that applies-->  simpler sums, and in the end operations

A `Strategy` (`strategy`) is a value: a name, a law, a match that finds what the law needs or says in a user's words
what is missing, and the rewrite. `explain()` of a lowered program shows the law that was chosen, and the reasons
against the others. A sum on its way is a `Summation` (`summation`). Start at the end of `strategies`.

What data determine
    sums over the points of a relation                            sparse.py
    sums whose place in the result is an element                  segment_sum.py, groups.py; numbered.py for several
    few diagonals given by elements                               data_diagonals.py
    windows between elements                                      window.py

Where a condition orders two indices
    running sums; of values below an element; counts              prefix_sum.py; in groups: running_in_groups.py
    factors taken out so that the rest is a running sum           factor.py
    attention without softmax, in chunks; with decays             chunked.py, decays_in_order.py
    triangles, bands and other domains, block by block            block.py, band.py, row_blocks.py

Where an access mixes indices
    correlations and sums over windows                            correlation.py
    products with bands that have an axis for diagonals           band_product.py
    reads along lines; short axes as a stack                      diagonal.py
    products multiplied out where that helps a term               expand.py

What is left
    a product: an einsum, or a sum along axes                     einsum.py
    a loop over the shorter ranges                                loop.py
"""
