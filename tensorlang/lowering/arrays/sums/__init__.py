"""The ways to compute a sum: `strategies` has them in the order in which they are tried."""
