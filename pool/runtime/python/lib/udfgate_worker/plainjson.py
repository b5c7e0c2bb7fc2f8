"""JSON without the json package, which imports re and enum: 1 MiB and several ms at every start."""

from udfgate_worker import BUILTINS as __builtins__  # noqa: F401

try:
    from _json import encode_basestring_ascii as _quote
    from _json import make_scanner
except ImportError:  # not CPython's accelerator: take the slow way
    make_scanner = None


class _Context:
    """What CPython's scanner wants to know."""

    strict = True
    object_hook = object_pairs_hook = parse_constant = None
    parse_float, parse_int = float, int
    memo: dict = {}


def decode(data: bytes) -> object:
    """Parse one JSON text. Raises ValueError."""
    text = str(data, "utf-8").strip()
    if make_scanner is None:
        from json import loads

        return loads(text)
    try:
        value, end = make_scanner(_Context)(text, 0)
    except StopIteration:
        raise ValueError("not JSON") from None
    if end != len(text):
        raise ValueError(f"{len(text) - end} characters after the JSON text")
    return value


def encode(value: object) -> bytes:
    """Render dicts with str keys, lists, str, int, bool and None."""
    if make_scanner is None:
        from json import dumps

        return dumps(value).encode()
    return _render(value).encode()


def _render(value: object) -> str:
    if isinstance(value, str):
        return _quote(value)
    if value is None or value is True or value is False:
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int):
        return int.__repr__(value)
    if isinstance(value, dict):
        return "{%s}" % ",".join([f"{_quote(key)}:{_render(item)}" for key, item in value.items()])
    return "[%s]" % ",".join([_render(item) for item in value])
