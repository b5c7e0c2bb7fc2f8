"""The rows of a table function, which are kept until their part is encoded: copies of them, and their sizes.

A body may fill one dict or list anew for each row. What it can change is copied when it comes, as deep as its type is
nested.
"""

from itertools import islice

from udfgate_worker import BUILTINS as __builtins__  # noqa: F401
from udfgate_worker.library import library

SIZED = ("utf8", "large_utf8", "binary", "large_binary")  # types whose values have a weight that is quickly known
PART_BYTES_MAX = 8 << 20  # texts and bytes of a part, by weight, but for its last row
_WEIGHED_MAX = 64  # items of a list that are looked at; the others count as they do on average
_BYTES = ("binary", "large_binary", "fixed_size_binary")
_BUFFERS = (bytearray, memoryview)
_LIKE = {("array", "array"), ("collections", "deque"), ("numpy", "ndarray")}
_modules, _names, _mro = (vars(type)[name].__get__ for name in ("__module__", "__name__", "__mro__"))


def weight(value: object) -> int:
    """Bytes of text, or in the members or items of a row, about; 0 for all else. Does not raise."""
    its = type(value)
    if its is str or its is bytes:
        return len(value)
    if its is dict:
        items = value.values()
    elif its is list or its is tuple:
        items = value
    else:
        try:
            items = value.__dict__.values() if hasattr(its, "__dataclass_fields__") else ()
        except Exception:  # the class's own code
            return 0
    seen = [len(one) for one in islice(items, _WEIGHED_MAX) if type(one) is str or type(one) is bytes]
    return sum(seen) * len(items) // _WEIGHED_MAX if len(items) > _WEIGHED_MAX else sum(seen)


def fitting(values: list) -> int:
    """How many texts or bytes, at least one, weigh no more than a part may."""
    try:
        if sum(map(len, filter(None, values))) <= PART_BYTES_MAX:
            return len(values)
    except Exception:  # of what is no text
        pass
    left = PART_BYTES_MAX
    for at, value in enumerate(values):
        left -= weight(value)
        if left < 0:
            return max(1, at)
    return len(values)


def copier(type_: object) -> object:
    """copy(value) for values of a type, which never raises; None where no value of it can change."""
    inner = _copier(type_)
    if inner is None or inner is _flat:
        return inner

    def copy(value: object) -> object:
        try:
            return inner(value)
        except Exception:  # the value's own code, or no end of it: it goes on as it is
            return value

    return copy


def _copier(type_: object) -> object:
    kind = type_ if type(type_) is str else type_.kind
    if type(type_) is not str:
        from udfgate_worker.kinds import ARROW_JSON, JSON, VARIANT

        if type_.extension in (JSON, ARROW_JSON, VARIANT):
            return _tree
        if type_.children:
            inner = [_copier(child) for _, child, _ in type_.children]
            if kind == "struct":
                return _struct([name for name, _, _ in type_.children], inner)
            return _map(inner[1]) if kind == "map" else _list(inner[0])
    return _bytes if kind in _BYTES else None


def _bytes(value: object) -> object:
    return bytes(value) if type(value) in _BUFFERS else value


def _flat(value: object) -> object:
    """A struct or a list of which no part can change."""
    its = type(value)
    if its is tuple:
        return value
    if its is dict or its is list:
        return value.copy()
    try:
        return _instance(value, []) if hasattr(its, "__dataclass_fields__") else _other(value, False)
    except Exception:  # the value's own code
        return value


def _tree(value: object) -> object:
    its = type(value)
    if its is dict:
        return {name: _tree(one) for name, one in value.items()}
    if its is list:
        return [_tree(one) for one in value]
    if its is tuple:
        return tuple([_tree(one) for one in value])
    return _other(value, True)


def _struct(names: list, inner: list) -> object:
    deep = [(at, name, copy) for at, (name, copy) in enumerate(zip(names, inner)) if copy is not None]
    if not deep:
        return _flat

    def copy(value: object) -> object:
        its = type(value)
        if its is dict:
            value = value.copy()
            for _, name, of in deep:
                if name in value:
                    value[name] = of(value[name])
            return value
        if its is list or issubclass(its, tuple):
            parts = list(value)
            for at, _, of in deep:
                if at < len(parts):
                    parts[at] = of(parts[at])
            return parts if its is list else tuple.__new__(its, parts)
        return _instance(value, deep) if hasattr(its, "__dataclass_fields__") else _other(value, True)

    return copy


def _instance(value: object, deep: list) -> object:
    """A copy of an instance of a dataclass."""
    its = type(value)
    if its.__dataclass_params__.frozen and not deep:
        return value
    if not hasattr(value, "__dict__") or its.__new__ is not object.__new__ or hasattr(its, "__copy__"):
        return _other(value, bool(deep))
    made = object.__new__(its)
    members = made.__dict__
    members.update(value.__dict__)
    for _, name, of in deep:
        if name in members:
            members[name] = of(members[name])
    return made


def _list(of: object) -> object:
    if of is None:
        return _flat

    def copy(value: object) -> object:
        its = type(value)
        if its is list:
            return [of(one) for one in value]
        if its is tuple:
            return tuple([of(one) for one in value])
        return _other(value, True)

    return copy


def _map(of: object) -> object:
    def copy(value: object) -> object:
        its = type(value)
        if its is dict:
            return value.copy() if of is None else {key: of(one) for key, one in value.items()}
        if its is list:
            return [_pair(pair, of) for pair in value]
        if its is tuple:
            return tuple([_pair(pair, of) for pair in value])
        return _other(value, of is not None)

    return copy


def _pair(pair: object, of: object) -> object:
    its = type(pair)
    if its is list or its is tuple:
        return its(pair if of is None or len(pair) != 2 else (pair[0], of(pair[1])))
    return _other(pair, True)


def _other(value: object, deep: bool) -> object:
    """A copy of what the rules take for a list or a struct, and that is of no class of Python's own."""
    its = type(value)
    if issubclass(its, tuple) and not deep:
        return value
    if issubclass(its, (dict, list, tuple, bytearray)) or hasattr(its, "__dataclass_fields__") or _alike(its):
        copy = library("copy")
        return copy.deepcopy(value) if deep else copy.copy(value)
    return value


def _alike(its: type) -> bool:
    return any([(_modules(base), _names(base)) in _LIKE for base in _mro(its)])
