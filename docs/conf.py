"""How the site is built: `python -m sphinx -W --keep-going docs out/docs`, with `pip install '.[docs]'`.

Pages are Markdown, lessons are the notebooks with the outputs stored in them, and `docs/catalogue` generates the
reference from the package. Nothing is fetched, neither when the site is built nor when it is read.
"""

import os
import re
import shutil
import sys
from html import escape
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

project = "tensorlang"
author = "the tensorlang authors"
copyright = author

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.mathjax",
    "sphinx-mathjax-offline",
    "sphinx_copybutton",
    "docs.catalogue",
]
exclude_patterns = ["catalogue", "notebooks/.ipynb_checkpoints"]

nb_execution_mode = "off"
nb_merge_streams = True
# a widget needs Python and external scripts; the outputs also hold a page that needs neither
nb_mime_priority_overrides = [("html", "application/vnd.jupyter.widget-view+json", None)]
nb_ipywidgets_js: dict[str, dict[str, str]] = {}
myst_enable_extensions = ["dollarmath", "amsmath"]
myst_heading_anchors = 3

default_role = "py:obj"  # docstrings have code between single backticks
autodoc_class_signature = "separated"  # values are made by functions; the signatures of their classes are of no use
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
python_maximum_signature_line_length = 88
python_use_unqualified_type_names = True
add_module_names = False

html_theme = "furo"
html_title = "tensorlang"
html_static_path = ["_static"]
html_favicon = "_static/favicon.svg"
html_css_files = ["site.css"]
html_copy_source = False
copybutton_exclude = ".linenos, .gp, .go"
pygments_style = "default"

PLAYGROUND = ROOT / "out" / "playground"
"""Where `python tasks.py playground` puts the page that needs no server; the site includes it if it was built."""
if PLAYGROUND.exists():
    tags.add("playground")  # noqa: F821  Sphinx's own
    html_js_files = ["playground.js"]


def _with_playground(app: Any, error: Exception | None) -> None:
    if error is None and PLAYGROUND.exists() and app.builder.name == "html":
        shutil.copytree(PLAYGROUND, Path(app.outdir) / "playground", dirs_exist_ok=True)


DESCRIPTION = "A tensor language whose gradients cost at most four times the program, inputs and outputs counted."
html_baseurl = os.environ.get("DOCS_URL", "")
"""The address of the site, ending in /; links to its card begin with it."""


def _described(app: Any, name: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """Add the title, description and card that other sites show with a link, where the page has none of its own."""
    own = context.get("metatags", "")
    card = html_baseurl + "_static/card.png" if html_baseurl else context["pathto"]("_static/card.png", True)
    tags = {
        'name="description"': DESCRIPTION,
        'property="og:title"': f"{context.get('title', project)}",
        'property="og:description"': DESCRIPTION,
        'property="og:type"': "website",
        'property="og:site_name"': project,
        'property="og:image"': card,
        'property="og:image:width"': "1200",
        'property="og:image:height"': "630",
        'property="og:image:alt"': "A program in index notation and its derived adjoint",
        'name="twitter:card"': "summary_large_image",
    }
    made = [
        f'<meta {key} content="{escape(re.sub("<[^>]*>", "", text))}">' for key, text in tags.items() if key not in own
    ]
    context["metatags"] = own + "\n".join(made)


def setup(app: Any) -> None:
    """Include the playground, and describe each page."""
    app.connect("build-finished", _with_playground)
    app.connect("html-page-context", _described)
