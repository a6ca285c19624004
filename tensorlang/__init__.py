"""A tensor language with Iverson brackets, and its provably cheap derivatives."""
