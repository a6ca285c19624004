"""Random numbers, others than NumPy's own for the same seed."""

import math
from random import Random

import numpy as np


class Generator:
    """A source of random numbers."""

    def __init__(self, seed=None):
        self.source = Random(repr(seed))

    def _array(self, draw, size):
        if size is None:
            return draw()
        shape = tuple(size) if isinstance(size, tuple | list) else (size,)
        return np.asarray([draw() for _ in range(math.prod(shape))]).reshape(shape)

    def integers(self, low, high=None, size=None):
        """Whole numbers from `low` to below `high`, or from 0 to below `low`."""
        low, high = (0, low) if high is None else (low, high)
        return self._array(lambda: self.source.randrange(low, high), size)

    def random(self, size=None):
        """Numbers from 0 to below 1."""
        return self._array(self.source.random, size)

    def standard_normal(self, size=None):
        """Normally distributed numbers."""
        return self._array(lambda: self.source.gauss(0.0, 1.0), size)

    def uniform(self, low=0.0, high=1.0, size=None):
        """Numbers from `low` to `high`."""
        return self._array(lambda: self.source.uniform(low, high), size)

    def choice(self, values, size=None):
        """Some of `values`."""
        return self._array(lambda: self.source.choice(list(values)), size)


default_rng = Generator
