"""Derivatives as they lie: where their elements are (`pieces`), and formats that hold only these (`layouts`)."""
