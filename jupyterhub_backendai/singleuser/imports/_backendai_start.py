"""Keeps out of a server's start what it imports and does not use. Runs in the session's container.

A single-user server imports the Hub's own pages, and with them all of SQLAlchemy and Alembic, for
one `isinstance` in `jupyterhub.log` and for functions that only a Hub calls. That is a third of the
processor time of its start. So while `jupyterhub.singleuser` is imported, these modules are stood
in for. Whatever is used of one brings the real module at once, wherever it is used and in whatever
version of JupyterHub; then and there it is as if it had been imported in the first place.

It also has the server load our extension, whatever the image has installed: for this process alone
a folder of ours is among those where Jupyter looks for configuration, and the extension's package
is found. Neither is left in the environment of what the server starts, once it has imported the
extension. A server that reads no such configuration (of an own class, say) never does: what it
starts finds the folder in JUPYTER_CONFIG_PATH, and a Jupyter server among it says in its log that
the extension is not there.

Standard library only, for any Python that JupyterHub 5 or later runs on. Where the variable
BACKENDAI_FAST_START is 0, everything is imported as usual.
"""

import importlib
import importlib.machinery
import os
import sys
import threading
import types
from typing import Any

HERE = os.path.dirname(os.path.abspath(__file__))
SUPPORT = os.path.dirname(HERE)
EXTENSION = "backendai_session"
CONFIG = os.path.join(HERE, "config")  # that has the extension loaded
CONFIG_PATH = "JUPYTER_CONFIG_PATH"  # folders that come before all others, as for PATH
KNOWN = (5, 6)  # major versions of JupyterHub that this was tried with; others import as usual

# What only a Hub uses. They come and go together, because they import each other.
_OF_THE_HUB = (
    "sqlalchemy",
    "sqlalchemy.exc",
    "jupyterhub.orm",
    "jupyterhub.handlers",
    "jupyterhub.handlers.pages",
)
# What is taken out of those modules by its name when a server is imported.
_OBJECTS = {("sqlalchemy", "func")}
_CLASSES = {
    ("sqlalchemy.exc", "SQLAlchemyError"),
    ("jupyterhub.handlers.pages", "HealthCheckHandler"),
}

_lock = threading.Lock()
_promises: list = []  # (namespace, name in it, what stands there) until the real thing does


def leave_the_path():
    """Takes this folder off the import path of this process and of all that it starts."""
    sys.path[:] = [entry for entry in sys.path if entry != HERE]
    kept = [p for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p and p != HERE]
    if kept:
        os.environ["PYTHONPATH"] = os.pathsep.join(kept)
    else:
        os.environ.pop("PYTHONPATH", None)


def leave_the_configuration():
    """Takes our folder off the places of Jupyter's configuration for all that this process starts;
    called when the server has read it."""
    paths = [p for p in os.environ.get(CONFIG_PATH, "").split(os.pathsep) if p and p != CONFIG]
    if paths:
        os.environ[CONFIG_PATH] = os.pathsep.join(paths)
    else:
        os.environ.pop(CONFIG_PATH, None)


def give_way(name):
    """Called by the stand-in of the package `name` while it is imported: the real package takes
    its place, and from now on a few imports are looked after."""
    leave_the_path()
    stand_in = sys.modules.pop(name)
    finder = _Finder()
    sys.meta_path.insert(0, finder)
    if os.path.isdir(os.path.join(SUPPORT, "lib", EXTENSION)):
        paths = [p for p in os.environ.get(CONFIG_PATH, "").split(os.pathsep) if p]
        os.environ[CONFIG_PATH] = os.pathsep.join([CONFIG, *paths])
    try:
        importlib.import_module(name)
    except BaseException:
        sys.meta_path.remove(finder)
        leave_the_configuration()
        sys.modules[name] = stand_in  # for the import that fails to take it out again
        raise


# ---- imports that are looked after ---------------------------------------------------------------


class _Finder:
    """Finds a few modules, each of them once; everything else is left to the others."""

    def __init__(self):
        self._around = {}
        if os.environ.get("BACKENDAI_FAST_START") != "0":
            self._around = {
                "jupyterhub.singleuser": _while_imported,
                "sqlalchemy": _before_and_keep_promises,
                "jupyterhub.handlers.pages": _before_and_keep_promises,
            }
        self._rfc3987 = True

    def find_spec(self, name, path=None, target=None):
        if name == EXTENSION:
            # Its parts are found by its own path from then on.
            leave_the_configuration()
            return importlib.machinery.PathFinder.find_spec(name, [os.path.join(SUPPORT, "lib")])
        if name == "rfc3987_syntax" and self._rfc3987:
            self._rfc3987 = False
            return importlib.machinery.PathFinder.find_spec(name, [HERE])
        parent = sys.modules.get(name.rpartition(".")[0])
        if isinstance(parent, _Module):
            parent._backendai_group.real(parent.__name__)
            if name in sys.modules:  # the real parent imports it itself
                loader: Any = _Already(sys.modules[name])
                return importlib.machinery.ModuleSpec(name, loader)
        around = self._around.pop(name, None)
        if around is None:
            return None
        spec = self._of_the_others(name, path, target)
        if spec is not None and hasattr(spec.loader, "exec_module"):
            spec.loader = _Around(spec.loader, around)
        return spec

    def _of_the_others(self, name, path, target):
        for finder in sys.meta_path:
            if finder is not self and hasattr(finder, "find_spec"):
                spec = finder.find_spec(name, path, target)
                if spec is not None:
                    return spec
        return None


class _Around:
    """Loads a module as its own loader does, inside a function of ours."""

    def __init__(self, loader, around):
        self._loader, self._around = loader, around

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module):
        module.__spec__.loader = module.__loader__ = self._loader
        self._around(lambda: self._loader.exec_module(module))


class _Already:
    """Loads a module by giving what is there."""

    def __init__(self, module):
        self._module, self._spec = module, module.__spec__

    def create_module(self, spec):
        return self._module

    def exec_module(self, module):
        module.__spec__ = self._spec


def _while_imported(load):
    """Loads `jupyterhub.singleuser` while modules are stood in for."""
    if sys.modules["jupyterhub"].version_info[0] not in KNOWN:
        load()
        return
    group = _Group(_OF_THE_HUB)
    try:
        load()
    finally:
        group.withdraw()
        _note_promises()


def _before_and_keep_promises(load):
    """Loads a module of which something was promised; then the real thing is in its place."""
    load()
    for promise in list(_promises):
        namespace, key, standing = promise
        real = _loaded(standing)
        if real is not None:
            _promises.remove(promise)
            if namespace.get(key) is standing:
                namespace[key] = real


def _note_promises():
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "jupyterhub" and not isinstance(module, _Module):
            for key, value in list(vars(module).items()):
                if isinstance(value, (_Object, _Class)):
                    _promises.append((vars(module), key, value))


# ---- what stands in ------------------------------------------------------------------------------


class _Group:
    """Modules that are stood in for together, unless one of them is there already."""

    def __init__(self, names):
        self._modules = {}
        if any(name in sys.modules for name in names):
            return
        specs = {name: _spec(name) for name in names}
        if all(specs.values()):
            self._modules = {name: _Module(spec, self) for name, spec in specs.items()}
            sys.modules.update(self._modules)

    def withdraw(self):
        """An import of one of them finds the real one from now on."""
        with _lock:
            for name, module in self._modules.items():
                if sys.modules.get(name) is module:
                    del sys.modules[name]

    def real(self, name):
        """The real module."""
        self.withdraw()
        return importlib.import_module(name)


def _spec(name):
    parent, _, _ = name.rpartition(".")
    if not parent:
        return importlib.machinery.PathFinder.find_spec(name)
    above = getattr(sys.modules.get(parent), "__spec__", None) or _spec(parent)
    places = above and above.submodule_search_locations
    return places and importlib.machinery.PathFinder.find_spec(name, places)


class _Module(types.ModuleType):
    """Stands in for a module until something of it is used."""

    def __init__(self, spec, group):
        super().__init__(spec.name)
        self.__spec__, self.__loader__, self.__file__ = spec, spec.loader, spec.origin
        self.__package__ = spec.parent
        if spec.submodule_search_locations is not None:
            self.__path__ = list(spec.submodule_search_locations)
        self._backendai_group = group

    def __getattr__(self, name):
        if name == "__path__":
            raise AttributeError(name)  # no package
        if sys.modules.get(self.__name__) is self:
            if (self.__name__, name) in _OBJECTS:
                return _Object(self.__name__, name, self._backendai_group)
            if (self.__name__, name) in _CLASSES:
                home = (self.__name__, self._backendai_group)
                return _Class(name, (Exception,), {}, home=home)
        return getattr(self._backendai_group.real(self.__name__), name)


class _Object:
    """Stands in for an object of a module that is stood in for."""

    def __init__(self, home, name, group):
        self._backendai = (home, name, group)

    def _real(self):
        home, name, group = self._backendai
        return getattr(group.real(home), name)

    def __getattr__(self, name):
        return getattr(self._real(), name)

    def __call__(self, *args, **kwargs):
        return self._real()(*args, **kwargs)


class _Class(type):
    """Stands in for a class. While the real one is not there nothing can be of it."""

    def __new__(mcs, name, bases, namespace, home=None, **kwargs):
        if home is None:  # somebody derives from one of these: it is derived from the real one
            bases = tuple(base._real() if isinstance(base, _Class) else base for base in bases)
            return types.new_class(name, bases, kwargs, lambda body: body.update(namespace))
        return super().__new__(mcs, name, bases, {"_backendai": (home[0], name, home[1])})

    def __init__(cls, name, bases, namespace, **_):
        super().__init__(name, bases, namespace)

    def _real(cls):
        home, name, group = cls._backendai
        return getattr(group.real(home), name)

    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(cls._real(), name)

    def __call__(cls, *args, **kwargs):
        return cls._real()(*args, **kwargs)

    def __instancecheck__(cls, instance):
        real = _loaded(cls)
        return real is not None and isinstance(instance, real)

    def __subclasscheck__(cls, subclass):
        real = _loaded(cls)
        return subclass is cls or (real is not None and issubclass(subclass, real))


def _loaded(standing):
    """What is stood in for, if its module was loaded meanwhile; else None."""
    home, name, _ = standing._backendai
    module = sys.modules.get(home)
    if module is None or isinstance(module, _Module):
        return None
    return vars(module).get(name)
