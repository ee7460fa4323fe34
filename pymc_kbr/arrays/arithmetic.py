"""NumPy's error state: the package computes in NumPy's default one, functions of the user in the user's."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from types import FunctionType
from typing import Any, TypeVar

import numpy as np

DEFAULT = {"divide": "warn", "over": "warn", "under": "ignore", "invalid": "warn"}
"""NumPy's own, in which threads begin, too: numbers that underflow in a density are zero, and no error."""

T = TypeVar("T", bound=Callable[..., Any])

_OF_CALLER: ContextVar[Mapping[str, Any] | None] = ContextVar("error state of the caller", default=None)


def errors_of_caller() -> dict[str, str]:
    """The error state that the user has set, for functions of the user that are called from here."""
    found: Mapping[str, Any] = _OF_CALLER.get() or np.geterr()
    # A handler of the user's cannot go to worker processes.
    return {kind: "warn" if state in ("call", "log") else state for kind, state in found.items()}


def default_arithmetic(entry: T) -> T:
    """Run a public function, or all public methods and properties of a class, in the state `DEFAULT`."""
    if not isinstance(entry, type):
        return _of_function(entry)  # type: ignore[no-any-return]
    for owner in entry.__mro__:
        if owner.__module__.partition(".")[0] != __name__.partition(".")[0] and owner is not entry:
            continue
        for name, member in list(vars(owner).items()):
            if not name.startswith("_") or name in ("__call__", "__post_init__"):
                changed = _of_member(member)
                if changed is not None:
                    setattr(owner, name, changed)
    return entry


def _of_member(member: Any) -> Any:
    """A method, property or the like in the state `DEFAULT`; None for anything else."""
    if isinstance(member, FunctionType):
        return _of_function(member) if not _is_entered(member) else None
    if isinstance(member, classmethod | staticmethod):
        return type(member)(_of_function(member.__func__)) if not _is_entered(member.__func__) else None
    if isinstance(member, property) and not _is_entered(member.fget):
        return property(_of_function(member.fget), member.fset, member.fdel, member.__doc__)
    if isinstance(member, functools.cached_property):
        member.func = _of_function(member.func)
    return None


def _is_entered(function: Any) -> bool:
    return getattr(function, "in_default_arithmetic", False)


def _of_function(function: Any) -> Any:
    if function is None or _is_entered(function):
        return function

    @functools.wraps(function)
    def entered(*args: Any, **kwargs: Any) -> Any:
        if _OF_CALLER.get() is not None:
            return function(*args, **kwargs)
        token = _OF_CALLER.set(np.geterr())
        try:
            with np.errstate(**DEFAULT):  # type: ignore[arg-type]
                return function(*args, **kwargs)
        finally:
            _OF_CALLER.reset(token)

    wrapper: Any = entered
    wrapper.in_default_arithmetic = True
    return wrapper
