"""What a body takes and returns, read from its code and hints. Without inspect and typing: they cost 2 MiB."""

import sys
from _functools import partial

from udfgate_worker import BUILTINS as __builtins__  # noqa: F401
from udfgate_worker.typenames import Unserved

NO_HINT = object()  # of a parameter or a return value without annotation
WRAPPERS_MAX = 64
COROUTINE = "a coroutine function"  # flavour of a body to await
GENERATOR = "a generator function"
GENERATORS = (GENERATOR, "an async generator function")
PLAIN_HINTS = {int: "int64", float: "float64", bool: "bool", str: "utf8", bytes: "binary"}
_VARARGS, _GENERATOR, _COROUTINE, _ASYNC_GENERATOR = 0x04, 0x20, 0x80, 0x200


class Parameter:
    """One positional parameter. `hint` is the annotation as written, or NO_HINT."""

    __slots__ = ("hint", "name", "optional")

    def __init__(self, name: str, hint: object, optional: bool) -> None:
        self.name, self.hint, self.optional = name, hint, optional


Plain = type(Parameter.__init__)
Code = type(Parameter.__init__.__code__)
Method = type(Parameter("", NO_HINT, False).__init__)


class Shape:
    """The positional parameters that a call by position fills, the name of `*args` if any, the return hint.

    `scope` resolves annotations that are strings. `known` is False for bodies written in C: only input_types can say.
    """

    def __init__(self) -> None:
        self.parameters: list[Parameter] = []
        self.rest = ""
        self.returns: object = NO_HINT
        self.scope: dict = {}
        self.known = True


def shape_of(body: object) -> Shape:
    """Look through partial, wraps, lru_cache, methods and callable objects to the function. Raises Unserved."""
    skip, keywords = 0, set()
    for _ in range(WRAPPERS_MAX):
        if isinstance(body, partial):
            skip += len(body.args)
            keywords |= set(body.keywords)
            body = body.func
        elif isinstance(body, type):
            return _unknown()
        elif isinstance(body, Method):
            skip += 1
            body = body.__func__
        elif hasattr(body, "__wrapped__"):
            body = body.__wrapped__
        elif isinstance(getattr(body, "__code__", None), Code):
            return _from_function(body, skip, keywords)
        elif isinstance(getattr(type(body), "__call__", None), Plain):
            skip += 1
            body = type(body).__call__
        else:
            return _unknown()
    raise Unserved(f"more than {WRAPPERS_MAX} wrappers around one body")


def _unknown() -> Shape:
    shape = Shape()
    shape.known = False
    return shape


def _from_function(function: object, skip: int, keywords: set) -> Shape:
    code, shape = function.__code__, Shape()
    hints = function.__annotations__
    count = code.co_argcount
    names = code.co_varnames
    defaults = len(function.__defaults__ or ())
    for number in range(skip, count):
        name = names[number]
        if name in keywords:  # partial(f, b=1): what follows b can only be given by keyword
            rest = [other for other in names[number + 1 : count - defaults] if other not in keywords]
            if rest:
                raise Unserved(f"partial gives parameter {name} and not {rest[0]} after it")
            break
        shape.parameters.append(Parameter(name, hints.get(name, NO_HINT), number >= count - defaults))
    only = names[count : count + code.co_kwonlyargcount]
    for name in only:
        if name not in (function.__kwdefaults__ or {}) and name not in keywords:
            raise Unserved(f"parameter {name} can only be given by keyword and has no default")
    if code.co_flags & _VARARGS:
        shape.rest = names[count + code.co_kwonlyargcount]
    shape.returns = hints.get("return", NO_HINT)
    shape.scope = function.__globals__
    return shape


def flavour(body: object) -> str:
    """'' for a body that returns its value, else what it is instead."""
    for _ in range(WRAPPERS_MAX):
        if isinstance(body, partial):
            body = body.func
        elif isinstance(body, Method):
            body = body.__func__
        elif not isinstance(getattr(body, "__code__", None), Code) and isinstance(
            getattr(type(body), "__call__", None), Plain
        ):
            body = type(body).__call__
        else:
            break
    flags = getattr(getattr(body, "__code__", None), "co_flags", 0)
    if flags & _ASYNC_GENERATOR:
        return GENERATORS[1]
    if flags & _COROUTINE:
        return COROUTINE
    return GENERATOR if flags & _GENERATOR else ""


def wraps_coroutine(body: object) -> bool:
    """Whether a body is a wrapper (functools.wraps) of a coroutine function, so that what it returns may be to await."""
    for _ in range(WRAPPERS_MAX):
        body = getattr(body, "__wrapped__", None)
        if body is None:
            return False
        if flavour(body) == COROUTINE:
            return True
    return False


def hint_type(hint: object, scope: dict) -> tuple:
    """(type, nullable) of a hint: nullable if it is a union with None. Raises Unserved."""
    found = members(hint, scope, 0)
    others = [member for member in found if member is not None and member is not type(None)]
    if len(others) != 1:
        raise Unserved("None alone is no type" if not others else "a union of several types is not supported")
    return _one_type(others[0], scope), len(others) < len(found)


def members(hint: object, scope: dict, depth: int) -> list:
    """The hint's union members, or itself; strings and forward references resolved, Annotated looked through.

    Annotated[datetime, "UTC"] stays: it says a zone.
    """
    if depth > WRAPPERS_MAX:
        raise Unserved("a hint that refers to itself")
    if isinstance(hint, str):
        return _resolve(hint, scope, depth)
    if type(hint).__name__ == "ForwardRef":
        return _resolve(hint.__forward_arg__, scope, depth)
    if hasattr(hint, "__metadata__") and hasattr(hint, "__origin__"):
        inner = members(hint.__origin__, scope, depth + 1)
        zoned = isinstance(hint.__metadata__[0], str) and getattr(inner[0], "__name__", "") == "datetime"
        return [hint] if zoned and inner[0].__module__ == "datetime" else inner
    for other_name in ("__supertype__", "__value__"):  # NewType, `type X = int`
        if type(hint).__module__ == "typing" and hasattr(hint, other_name):
            return members(getattr(hint, other_name), scope, depth + 1)
    typing = sys.modules.get("typing")
    if type(hint).__name__ == "UnionType" or (typing and getattr(hint, "__origin__", None) is typing.Union):
        return [member for part in hint.__args__ for member in members(part, scope, depth + 1)]
    return [hint]


def _resolve(text: str, scope: dict, depth: int) -> list:
    try:
        value = eval(text, scope)
    except TypeError:  # `int | None`, `list[int | None]` before Python 3.10
        if "|" not in text:
            raise
        from udfgate_worker.hints import old_union

        value = old_union(text, scope)
    except Exception as e:
        raise Unserved(
            f"hint {text!r} cannot be read: {type(e).__name__}: {e}; give input_types and result_type"
        ) from None
    return members(value, scope, depth + 1)


def _one_type(hint: object, scope: dict) -> object:
    try:
        if hint in PLAIN_HINTS:
            return PLAIN_HINTS[hint]
    except TypeError:
        pass
    from udfgate_worker.hints import rich_hint

    return rich_hint(hint, scope)
