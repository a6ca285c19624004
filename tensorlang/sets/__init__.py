"""Predicates as integer sets: what holds for all sizes. Only `isl` knows islpy.

    Predicate  --encode-->  rows over numbered dimensions  --rows-->  an answer, exactly, for most
                                                           --isl-->   an answer by islpy for the others
    Function   --check-->   the same Function, or an error with a place, a witness and a mend

Answers are exact for predicates without data, and safe with data: what is too hard to say counts as not proved. Sizes
are never negative, indices range over the integers unless the context bounds them, and an element of an index array may
be anything in its range.

Start at `isl`, which has the questions: `is_empty`, `implies`, `not_implied`, `gist`, `forced_equalities`.

Questions, and what is known of data
    conditions on data that are among others up to names          match.py
    existential conditions that follow from a known read          witness.py
    points of sets, in disjoint parts, counted with barvinok      points.py

How predicates are rewritten
    equalities solved for indices; projections                    solve.py, without isl
    an index bound by `exists` eliminated                         eliminate.py, without isl
    predicates simplified in a context                            simplify.py

The bounds check
    every name is bound where it is used                          scopes.py
    claims that accesses are inside, moved outward                check.py, claims.py
    the error, with sizes and indices at which it is false        counterexample.py
    changes of the program that would help                        mends.py
"""
