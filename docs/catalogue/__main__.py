"""`python -m docs.catalogue` writes the generated parts of the reference anew."""

from docs.catalogue import REFERENCE, kept

for page in sorted(REFERENCE.glob("*.md")):
    page.write_text(kept(page.read_text()))
