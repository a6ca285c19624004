"""Functions of numbers with loops that data decide: their SSA form, its derivatives, and what these cost on each path.

    code       the SSA form: straight lines, branches with phis, loops with carried values
    ops        the operations, and the derivative of each as operations
    dual       values and partial derivatives in one pass, by dual numbers
    adjoint    the adjoint of each path, with the values that it reads stored for each trip
    count      the value on numbers, and how many operations the path to it has
    text       the form as text, and back
    plain      the form as data of certificates
    black_box  the form as a scalar function of the language

Nothing here knows Python's syntax: `tensorlang.surface.loops` reads it.
"""
