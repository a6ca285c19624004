"""A checker of certificates that shares no code with the package that makes them.

From the bottom up: `trees` holds programs, `syntax` reads them, `semantics` says what they mean and cost at given
sizes, one element at a time, `points` decides questions about integer sets by isl, `statements` reads Figure 10,
`replay` follows a derivation, `extracted` asks the adjoint that is extracted from the Coq proofs, where that is built,
`samples` compares values and costs at small sizes, `formulas` reads costs, and `certificate` checks all that a
certificate says.

    python -m proofs.checker CERTIFICATE.json
"""
