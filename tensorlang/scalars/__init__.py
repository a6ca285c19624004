"""Scalar functions with data-dependent loops: their SSA form, its derivatives, and the cost of these on each path.

    code       the SSA form: straight lines, branches with phis, loops with carried values
    ops        the operations, and the derivative of each as operations
    flags      whether a loop has passed its bound, so that the result is nan
    dual       values and partial derivatives in one pass, by dual numbers
    adjoint    the adjoint of each path, with the values that it reads stored for each trip
    count      the value on numbers, and the number of operations on its path
    text       the form as text, and back
    plain      the form as data of certificates
    black_box  the form as a scalar function of the language

Nothing here knows Python's syntax: `tensorlang.surface.loops` reads it.
"""
