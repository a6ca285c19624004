"""That adjoints are cheap, for all sizes, and shown to others."""

from tensorlang.certificate.certificate import Certificate, certify

__all__ = ["Certificate", "certify"]
