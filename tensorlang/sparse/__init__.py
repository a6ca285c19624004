"""Jacobians and Hessians of which only the elements on their supports are computed and stored.

    Function  --pipeline.jacobian-->  Function with dense results  --pieces-->  a Piece for each part of the support
              --layouts-->  Structured, which is called with arrays, and gives BCOO, CSR, diagonals or bands

Nothing is detected at run time and nothing is coloured: the supports are those of the derived program, for all sizes.

    pieces     which boxes of points an array consists of, and at which places their elements are: `tl.structure`
    layouts    the program that computes just these elements, and the formats made of them: `tl.jacobian`, `tl.hessian`

Start at `pieces`: its docstring has the law by which an output is split. A new format is one entry in `_FORMATS` of
`layouts`, a function of the elements with their places and of the shape.
"""
