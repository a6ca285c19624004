"""Predicates as integer sets; the only place that knows islpy."""
