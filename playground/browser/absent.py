"""JAX, where there is none: it can be imported, and names of it can be written, but nothing of it is done.

Code that would run on JAX is only written in a browser; the modules that write it import JAX at their top.
"""

import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType


class _Named(type):
    """Anything of the package: each of its names is such a thing again."""

    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return _thing(name)

    def __getitem__(cls, item):
        return cls

    def __or__(cls, other):
        return cls

    __ror__ = __or__


def _thing(name):
    return _Named(name, (_Nothing,), {})


class _Nothing:
    def __init__(self, *args, **kwargs):
        pass

    def __call__(self, *args, **kwargs):
        return args[0] if len(args) == 1 and callable(args[0]) else self

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return _thing(name)()


class _Module(ModuleType):
    __path__ = ()

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return _thing(name)


class _Finder(MetaPathFinder, Loader):
    def find_spec(self, name, path=None, target=None):
        return ModuleSpec(name, self, is_package=True) if name.split(".")[0] in ("jax", "jaxlib") else None

    def create_module(self, spec):
        return _Module(spec.name)

    def exec_module(self, module):
        pass


sys.meta_path.append(_Finder())
