"""Sparse derivatives: the places of their elements (`pieces`), and formats that hold only these (`layouts`)."""
