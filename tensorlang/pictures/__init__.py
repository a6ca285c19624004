"""Pictures where people would rather look than read, drawn by matplotlib.

    lattice           the points of a predicate, at given sizes
    support           where a statement of a program can be other than 0
    access_map        which elements of a parameter feed which elements of the result
    sparsity          where a Jacobian can be other than 0
    program_graph     the statements of a program, with arrows from each to its readers
    adjoint_graphs    the same beside the adjoint, where the arrows are turned round
    cost_curves       what a program and its adjoint cost as a size grows, and the bound
    certificate_page  a certificate on one page
    new_axes          axes for a picture of one's own, in the same style
    dress             the same for axes that exist
    svg               a picture as an element of a page, in the page's colours, with a description

Each gives matplotlib's own `Axes` or `Figure`, and draws into `ax` if it is given. Notebooks show what is drawn into
new axes as `svg` does: it takes the colour of the text around, contrasts with the page by at least 4.5 to 1 in light
and dark, scales, and says in words what is to be seen. In files, backgrounds are transparent, and the colours can be
distinguished on light and dark pages, and by colour-blind people. What is too large is drawn in part, and the picture
says which. All raise `MissingPackage` without matplotlib, which the extra `tensorlang[demo]` installs.
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
