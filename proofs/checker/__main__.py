"""`python -m proofs.checker CERTIFICATE.json ..`: exit status 0 if all hold, 1 if one is refused, 2 for none."""

import sys
from pathlib import Path

from proofs.checker.certificate import check
from proofs.checker.trees import (
    Refused,
)


def main(paths: list[str]) -> int:
    """Check the certificates in these files."""
    if not paths:
        print("usage: python -m proofs.checker CERTIFICATE.json ...", file=sys.stderr)
        return 2
    refused = 0
    for path in paths:
        try:
            print(check(Path(path).read_text(encoding="utf-8")))
        except OSError as error:
            print(f"{path}: can't be read: {error.strerror}", file=sys.stderr)
            refused += 1
        except (Refused, UnicodeDecodeError) as error:
            print(f"{path}: refused: {error}", file=sys.stderr)
            refused += 1
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
