"""`python -m docs.catalogue` writes the generated parts of pages anew; with a path, from the counts in that file."""

import sys
from pathlib import Path

from docs.catalogue import growth, kept, pages

if len(sys.argv) > 1:
    growth.keep(Path(sys.argv[1]))
for page in pages():
    page.write_text(kept(page.read_text()))
