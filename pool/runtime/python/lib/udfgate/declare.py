"""The decorators: they note what was asked for and leave the body as it is. The worker judges at load."""

from _functools import partial

from udfgate_worker.library import near

KINDS = {"scalar": "udf", "table": "udtf", "aggregate": "udaf"}
OF_GUESTS = ("rows_of_lists", "stage_refs")  # options that only other packages have, as they came
IO_THREADS_MAX = 1024
MODES = ("row", "list", "arrow", "pandas", "numpy", "polars")
_NS = {"ns": 1, "us": 10**3, "µs": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}


class Declaration:
    """One use of a decorator: the body, its kind (scalar, table, aggregate), and the options that were given.

    `source` is the package whose decorator it was, if not this one: its type names are its own.
    """

    __slots__ = ("body", "kind", "options", "source")

    def __init__(self, body: object, kind: str, options: dict, source: str = "") -> None:
        self.body, self.kind, self.options, self.source = body, kind, options, source


class Declared(partial):
    """What a decorated function is replaced by: calls go straight through, attributes too, pickled by name.

    A partial because that calls the body from C: no frame of ours in tracebacks, none more per recursion.
    """

    def __getattr__(self, name: str) -> object:
        if name.startswith("__") or name == "declaration":
            raise AttributeError(name)
        return getattr(self.func, name)

    def __repr__(self) -> str:
        return f"<{KINDS[self.declaration.kind]} of {self.func!r}>"

    def __reduce__(self) -> str:
        return self.__qualname__

    def __copy__(self) -> "Declared":
        return self

    def __deepcopy__(self, _memo: dict) -> "Declared":
        return self


def udf(body: object = None, /, **options: object) -> object:
    """Serve a function, or a class whose instances are called, as a scalar function. Also `@udf(option=…)`."""
    return _decorate("scalar", body, options)


def udtf(body: object = None, /, **options: object) -> object:
    """Serve a generator as a table function."""
    return _decorate("table", body, options)


def udaf(body: object = None, /, **options: object) -> object:
    """Serve a class as an aggregate function."""
    return _decorate("aggregate", body, options)


def declarations(value: object) -> tuple:
    """The declarations that a value bound in a module stands for."""
    if issubclass(type(value), Declared):
        return (value.declaration,)
    if issubclass(type(value), type):
        return tuple(type.__getattribute__(value, "__dict__").get("__udfgate__", ()))
    return ()


def declare(kind: str, body: object, options: dict, source: str) -> object:
    """What the decorator of another package leaves in place of a body. Options as those of this package's own."""
    checked = _checked(kind, {name: value for name, value in options.items() if name not in OF_GUESTS})
    checked.update({name: options[name] for name in OF_GUESTS if options.get(name)})
    return _declare(kind, body, checked, source)


def _decorate(kind: str, body: object, options: dict) -> object:
    checked = _checked(kind, options)
    if body is not None:
        return _declare(kind, body, checked)
    return lambda body: _declare(kind, body, checked)


def _declare(kind: str, body: object, options: dict, source: str = "") -> object:
    if not callable(body):
        raise TypeError(f"{KINDS[kind]}: wanted a function or a class, got {type(body).__name__}")
    if isinstance(body, type):  # stays the class that it is: isinstance and super() go on working
        body.__udfgate__ = (*vars(body).get("__udfgate__", ()), Declaration(body, kind, options, source))
        return body
    declared = Declared(body)
    for name in ("__module__", "__name__", "__qualname__", "__doc__"):
        try:
            setattr(declared, name, getattr(body, name))
        except AttributeError:
            pass
    declared.__wrapped__ = body
    declared.declaration = Declaration(body, kind, options, source)
    return declared


def _checked(kind: str, options: dict) -> dict:
    """The options that were given, normalised. TypeError for a name or a value that cannot be meant."""
    checked = {}
    for name, value in options.items():
        check = _OPTIONS.get(name)
        if check is None:
            raise TypeError(f"{KINDS[kind]}: no option is called {name}{near(name, list(_OPTIONS))}")
        if value is None:
            continue
        try:
            checked[name] = check(value)
        except ValueError as e:
            raise TypeError(f"{KINDS[kind]}: {name}: wanted {e}, got {value!r}") from None
    return checked


def _one_of(*words: str) -> object:
    def check(value: object) -> str:
        if not isinstance(value, str) or value.lower() not in words:
            raise ValueError(" or ".join(map(repr, words)))
        return value.lower()

    return check


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError("True or False")
    return value


def _count(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError("a number from 1")
    return value


def _threads(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= IO_THREADS_MAX:
        raise ValueError(f"a number from 1 to {IO_THREADS_MAX}")
    return value


def _rows(value: object) -> list:
    if not isinstance(value, (list, tuple)):
        raise ValueError("a list of rows, each a tuple of arguments")
    return list(value)


def _wait(value: object) -> int:
    """Nanoseconds; 0 is not to wait, which is as good as the shortest time."""
    return 1 if value == 0 and not isinstance(value, bool) else _timeout(value)


def _name(value: object) -> str:
    if not isinstance(value, str) or not value or not value.isprintable() or set(value) & set(" .\"'`"):
        raise ValueError("a name without spaces, dots and quotes")
    return value


def _types(value: object) -> list:
    if isinstance(value, (list, tuple)):
        return list(value)
    if isinstance(value, str) or type(value).__module__.startswith("pyarrow"):
        return [value]
    raise ValueError("a list of types")


def _anything(value: object) -> object:
    return value


def _timeout(value: object) -> int:
    """Nanoseconds of "2s", "500ms", "1m30s" or a number of seconds."""
    wanted = 'a time above 0 such as "2s", "500ms" or a number of seconds'
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        total = value * 10**9 if 0 < value < 10**9 else 0
    elif isinstance(value, str):
        total = _parse_duration(value.strip(), wanted)
    else:
        raise ValueError(wanted)
    if not 0 < int(total) < 2**63:
        raise ValueError(wanted)
    return int(total)


def _parse_duration(text: str, wanted: str) -> float:
    total, at = 0.0, 0
    while at < len(text):
        start = at
        while at < len(text) and text[at] in "0123456789.":
            at += 1
        number = text[start:at]
        start = at
        while at < len(text) and text[at] not in "0123456789.":
            at += 1
        try:
            total += float(number) * _NS[text[start:at].strip()]
        except (KeyError, ValueError):
            raise ValueError(wanted) from None
    return total


_OPTIONS = {
    "name": _name,
    "input_types": _types,
    "result_type": _anything,
    "result_types": _types,
    "mode": _one_of(*MODES),
    "null_handling": _one_of("call", "skip"),
    "on_error": _one_of("fail", "null", "reject"),
    "volatility": _one_of("immutable", "stable", "volatile"),
    "idempotent": _flag,
    "elementwise": _flag,
    "timeout": _timeout,
    "native": _one_of("auto", "off", "require"),
    "concurrency": _count,
    "io_threads": _threads,
    "max_batch_rows": _count,
    "max_workers": _count,
    "init": _one_of("worker", "shared"),
    "warmup": _rows,
    "affinity": _one_of("none", "stream"),
    # of arrow-udf and databend-udf
    "skip_null": _flag,
    "batch": _flag,
    "batch_mode": _flag,
    "max_concurrency": _count,
    "concurrency_timeout": _wait,
}
