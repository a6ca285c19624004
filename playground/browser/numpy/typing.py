"""Names for annotations."""

from typing import Any


class NDArray:
    """An array."""

    def __class_getitem__(cls, item):
        return cls


ArrayLike = Any
