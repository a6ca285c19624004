"""What tests share: programs, data, and what is compared how."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
"""The repository."""
GOLDEN = ROOT / "tests" / "golden"
