"""Stands before the real `rfc3987_syntax` on the import path of a session's server.

The real package builds the grammars of RFC 3987 while it is imported, which takes about a second
and is half of a Jupyter server's start; nothing in a server uses them unless a JSON schema has an
`iri` format. This stand-in loads the real package when one of its names is first used, so that
nothing is lost, and takes itself off the path, so that Jupyter kernels never see it.
"""

import importlib
import importlib.machinery
import sys

from _backendai_start import leave_the_path

leave_the_path()

if importlib.machinery.PathFinder.find_spec(__name__, sys.path) is None:
    raise ModuleNotFoundError("No module named " + repr(__name__), name=__name__)


def _real():
    """The real package, which from then on is what `import rfc3987_syntax` gives."""
    module = sys.modules.get(__name__)
    if module is None or getattr(module, "__file__", None) == __file__:
        sys.modules.pop(__name__, None)
        try:
            module = importlib.import_module(__name__)
        except BaseException:
            sys.modules[__name__] = _STAND_IN
            raise
    return module


_STAND_IN = sys.modules[__name__]


def is_valid_syntax(*args, **kwargs):
    """Checks a value against a rule of RFC 3987 with the real package."""
    return _real().is_valid_syntax(*args, **kwargs)


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    return getattr(_real(), name)
