"""Figure 6: what a program costs, counted at given sizes, or for all sizes at once.

    Function  --cost-->  charges (weight, domain)  --counter-->   an integer                  at given sizes and data
                                                   --counting-->  cells of quasi-polynomials  for all sizes
    cells  --pieces-->  CostPolynomial  --growth-->  O(m*n)    --shown-->  text, LaTeX, SymPy    --read-->  back again

Start at `cost`, whose `charges` are Figure 6 as code, and at `symbolic` for `CostPolynomial`.

What is charged
    what each expression costs, and at which points               cost.py, as charges
    the points at which something is charged                      domains.py
    scalar functions with loops that data end                     loops.py, by the visits of these
    facts of chosen points that hold whatever the data            chosen.py

How points are counted
    at given sizes, with data                                     counter.py
    for all sizes: one index after the other                      counting.py
    sums of powers, and of quotients rounded down                 quasi.py, over the polynomials of polynomial.py
    which cells become one, so that sizes are in one of them      pieces.py

What is asked of costs
    whether one is never the larger, for all sizes                bounds.py, for the steps of simplification
    how large the ratio of two gets                               ratio.py, for certificates
    which terms outgrow the others                                growth.py
    whether an extremum has no point at given sizes               extrema.py, before a program runs
    how they are written and read                                 shown.py, read.py
"""
