"""Helpers that tests share: programs, data, and comparisons."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
"""The repository."""
GOLDEN = ROOT / "tests" / "golden"
