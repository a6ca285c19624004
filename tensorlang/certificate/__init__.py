"""Proofs that adjoints are cheap at all sizes, in a form that others can check."""

from tensorlang.certificate.certificate import Certificate, certify

__all__ = ["Certificate", "certify"]
