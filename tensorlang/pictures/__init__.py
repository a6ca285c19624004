"""Pictures of programs, drawn by matplotlib.

    lattice           the points of a predicate, at given sizes
    support           where a statement of a program can be other than 0
    access_map        which elements of a parameter feed which elements of the result
    sparsity          where a Jacobian can be other than 0
    program_graph     the statements of a program, with arrows from each to its readers
    adjoint_graphs    the same beside the adjoint, where the arrows are turned round
    cost_curves       the costs of a program and its adjoint as a size grows, and the bound
    certificate_page  a certificate on one page
    new_axes          axes for your own picture, in the same style
    dress             the same for existing axes
    svg               a picture as an element of a page, in the page's colours, with a description

Each returns matplotlib's own `Axes` or `Figure`, and draws into `ax` if it is given. Notebooks show pictures in new
axes as `svg` does: they take the colour of the surrounding text, contrast with the page by at least 4.5 to 1 in light
and dark themes, scale, and have a description in words. In files, backgrounds are transparent, and the colours can be
distinguished on light and dark pages, and by colour-blind people. A picture that would be too large shows a part, and
says which. All raise `MissingPackage` without matplotlib, which the extra `tensorlang[demo]` installs.

>>> import tensorlang as tl
>>> ax = tl.pictures.support(tl.parse("f(x: [n]R) = gen i:n, j:n. [i = j] * x[i]"), n=4)
>>> print(ax.get_title(loc="left"))
f: i = j
"""

from tensorlang.pictures.accesses import access_map
from tensorlang.pictures.arrows import adjoint_graphs, program_graph
from tensorlang.pictures.canvas import dress, new_axes
from tensorlang.pictures.curves import cost_curves
from tensorlang.pictures.lattices import lattice, support
from tensorlang.pictures.matrices import sparsity
from tensorlang.pictures.pages import certificate_page
from tensorlang.pictures.vector import svg

__all__ = [
    "access_map",
    "adjoint_graphs",
    "certificate_page",
    "cost_curves",
    "dress",
    "lattice",
    "new_axes",
    "program_graph",
    "sparsity",
    "support",
    "svg",
]
