"""LOAD → LOADED: import the served modules, find their functions, settle what each takes and returns."""

import sys
from _functools import partial

from udfgate.declare import KINDS, Declaration, declarations

from udfgate_worker import BUILTINS as __builtins__  # noqa: F401
from udfgate_worker.errors import LoadError, raised_at
from udfgate_worker.function import Function
from udfgate_worker.limits import chunk_limits, rows_at_once
from udfgate_worker.modules import Served, found_in, import_served
from udfgate_worker.signature import (
    COROUTINE,
    GENERATOR,
    NO_HINT,
    Plain,
    Shape,
    flavour,
    hint_type,
    shape_of,
    wraps_coroutine,
)
from udfgate_worker.strict import type_name
from udfgate_worker.typenames import Unserved, column_type, described

# Options that change answers, or promise something, and are not built yet: the values with which they may be given all
# the same.
_TAME = {
    "mode": ("row", "list", "arrow", "numpy", "pandas", "polars"),
    "init": ("worker",),
    "native": ("auto", "off"),
    "affinity": ("none",),
}


def load(request: dict, views: dict, imports: object, tells: object) -> tuple:
    """Carry out a LOAD: (functions by number, "functions" and "skipped" of LOADED).

    imports(file, count) is called before each of the count modules; a module of the path is told by its name. tells(text)
    writes to the gateway's log what begins that may take long.
    Raises what the modules raise, and LoadError.
    """
    sys.path[:0] = request.get("path") or []
    functions, entries, skipped = [], [], []
    sys.meta_path.insert(0, Served({module["name"]: module.get("file") or "" for module in request["modules"]}))
    for module in request["modules"]:
        name, file = module["name"], module.get("file") or ""
        imports(file or name, len(request["modules"]))
        loaded = import_served(name, file)
        if not issubclass(type(loaded), type(sys)):
            raise LoadError(f"{name}: wanted a module in sys.modules, got {type_name(loaded)}", file)
        taken, warmups = set(), []
        for declaration in found_in(loaded, name, skipped):
            function, entry = _served(declaration, name, views)
            if entry["name"] in taken:
                what = f"{name}: two functions are called {entry['name']}; give one of them name=…"
                raise LoadError(what, *_where(declaration))
            taken.add(entry["name"])
            entry["number"] = len(functions)
            entry["file"] = file or getattr(loaded, "__file__", None) or ""
            functions.append(function)
            entries.append(entry)
            if "warmup" in declaration.options:
                warmups.append((function, declaration))
        for function, declaration in warmups:
            from udfgate_worker.warmup import warm

            tells(f"warming up {function.canonical}")
            warm(function, declaration.options["warmup"], _where(declaration))
    if "databend_udf" in sys.modules:
        _built_in(request["modules"], functions, entries, views)
    return functions, entries, skipped


def _built_in(modules: list, functions: list, entries: list, views: dict) -> None:
    """Add what servers of databend-udf offer beside a file's functions, where the file has none of that name."""
    from udfgate_worker.guesttypes import built_in

    taken = {entry["name"] for entry in entries}
    for declaration in built_in([sys.modules.get(module["name"]) for module in modules]):
        function, entry = _served(declaration, declaration.source, views)
        if entry["name"] not in taken:
            entry["number"], entry["file"] = len(functions), ""
            functions.append(function)
            entries.append(entry)


def _where(declaration: Declaration) -> tuple:
    """File and line of a body, as far as they are known."""
    body = declaration.body
    for _ in range(64):
        code = getattr(body, "__code__", None)
        if code is not None:
            return code.co_filename, code.co_firstlineno
        if isinstance(body, type):
            names = vars(body)
            method = next((value for value in names.values() if isinstance(value, Plain)), None)
            module = sys.modules.get(body.__module__)
            body = names.get("__init__") or names.get("__call__") or method
            if body is None:
                return getattr(module, "__file__", None) or "", 0
        else:
            body = getattr(body, "__wrapped__", None) or getattr(body, "func", None) or getattr(body, "__func__", None)
    return "", 0


def _name_of(declaration: Declaration) -> str:
    if "name" in declaration.options:
        return declaration.options["name"]
    name = getattr(declaration.body, "__name__", "")
    if not name or name == "<lambda>":
        raise Unserved(f"{'a lambda' if name else type(declaration.body).__name__} needs name=…")
    return name


def _served(declaration: Declaration, module: str, views: dict) -> tuple:
    """(Function, entry of LOADED without its number) of a declaration."""
    name, table = getattr(declaration.body, "__name__", "?"), declaration.kind == "table"
    try:
        name = _name_of(declaration)
        _refuse_unbuilt(declaration)
        mode, skip = _ways(declaration.options)
        call = _callable(declaration)
        wrapper = not table and not flavour(call) and wraps_coroutine(call)
        coroutine = wrapper or flavour(call) == COROUTINE
        at_once, limits = rows_at_once(declaration.options, mode, coroutine), chunk_limits(declaration.options)
        args, result = _columns(declaration, call)
        if declaration.source:
            from udfgate_worker.guesttypes import guest_body, refuse_skipped

            refuse_skipped(declaration.source, skip and not table, result[1])
        if isinstance(declaration.body, type):
            call = _instance(declaration, f"{module}.{name}").__call__
        if declaration.source:
            call = guest_body(declaration, call)
        if skip and not table:  # null answers of rows that the body does not see need a column that has nulls
            result = (result[0], True)
    except Unserved as e:
        raise LoadError(f"{module}.{name}: {e}", *_where(declaration)) from None
    options = declaration.options
    volatility = options.get("volatility", "volatile")
    listing = mode != "row"
    elementwise = options.get("elementwise", not listing)
    try:
        function = _function(mode, name, call, args, result, views)
    except Unserved as e:  # a time zone that this host does not know
        raise LoadError(f"{module}.{name}: {e}", *_where(declaration)) from None
    if table:
        from udfgate_worker.table import Table

        members = len(result[0].children) if getattr(result[0], "view", "") == "tuple" else 0
        function.table = Table(flavour(call) == GENERATOR, members)
    function.special(listing, skip, elementwise)
    function.canonical = f"{module}.{name}"
    if listing:
        function.rows_max = limits["max_batch_rows"]
    if coroutine or at_once > 1:
        function.wait(at_once, coroutine, options.get("io_threads", 1) if wrapper else 0)
    entry = {
        "number": 0,
        "module": module,
        "name": name,
        "mode": mode,
        "kind": declaration.kind,
        "args": [{"name": arg, "type": described(kind), "nullable": nullable} for arg, kind, nullable in args],
        "result": {"name": name, "type": described(result[0]), "nullable": result[1]},
        "volatility": volatility,
        "elementwise": elementwise,
        "idempotent": options.get("idempotent", volatility == "immutable"),
        "timeout_ns": options.get("timeout", 0),
        "on_error": options.get("on_error", "fail"),
        **limits,
    }
    return function, entry


def _function(mode: str, name: str, call: object, args: list, result: tuple, views: dict) -> Function:
    """The Function of settled columns. Raises Unserved."""
    names, kinds = [arg for arg, _, _ in args], [kind for _, kind, _ in args]
    if mode in ("row", "list"):
        return Function(name, call, kinds, names, result, views)
    from udfgate_worker.vectors import Vector, storage

    if mode in ("arrow", "polars"):
        kinds, result = list(map(storage, kinds)), (storage(result[0]), result[1])
    function = Function(name, call, kinds, names, result, views)
    function.vector = Vector(mode, names, kinds, result)
    function.mutable = function.mutable and mode in ("numpy", "pandas")
    return function


def _instance(declaration: Declaration, name: str) -> object:
    """The one instance of a class in this worker. What its __init__ raises is the author's to see."""
    try:
        return declaration.body()
    except TypeError as e:
        at = raised_at(e)
        if at is not None and at.tb_next is None:  # raised by the call, not in __init__
            raise LoadError(f"{name}: {e}", *_where(declaration)) from None
        raise


def _refuse_unbuilt(declaration: Declaration) -> None:
    table = declaration.kind == "table"
    if declaration.kind == "aggregate":
        raise Unserved(f"aggregate functions (@{KINDS[declaration.kind]}) are not supported yet")
    if table:
        from udfgate_worker.tabletypes import refuse_options

        refuse_options(declaration.options, _name_of(declaration))
    for option, value in declaration.options.items():
        if option in _TAME and value not in _TAME[option]:
            raise Unserved(f"{option}={value!r} is not supported yet")
    if "result_types" in declaration.options and not table:
        raise Unserved("result_types is for table functions: use @udtf; a scalar function has result_type")


def _ways(options: dict) -> tuple:
    """(mode, whether rows with a null argument are skipped), each of which goes by several names."""
    modes = [(name, options[name]) for name in ("batch", "batch_mode") if name in options]
    ways = [f"{name}={value!r}" for name, value in modes]
    found = {"list" if value else "row" for _, value in modes} | ({options["mode"]} if "mode" in options else set())
    if "mode" in options:
        ways.append(f"mode={options['mode']!r}")
    skips = {value for value in [options.get("skip_null")] if value is not None}
    skips |= {options["null_handling"] == "skip"} if "null_handling" in options else set()
    if len(found) > 1:
        raise Unserved(f"{' and '.join(ways)} contradict each other")
    if len(skips) > 1:
        raise Unserved(
            f"skip_null={options['skip_null']} and null_handling={options['null_handling']!r} contradict each other"
        )
    return next(iter(found), "row"), next(iter(skips), False)


def _callable(declaration: Declaration) -> object:
    """What takes the arguments: the body past its decorators' wrappers, or for a class its __call__."""
    body = declaration.body
    while declarations(body) and not isinstance(body, type):
        body = body.func
    if isinstance(body, type):
        body = next((vars(base)["__call__"] for base in body.__mro__ if "__call__" in vars(base)), None)
        if body is None:
            raise Unserved("the class has no __call__")
    kind = flavour(body)
    if declaration.kind == "table":
        if kind == COROUTINE:
            raise Unserved("an async table function yields its rows; this one has no yield")
    elif kind and kind != COROUTINE:
        guest = declaration.source == "databend_udf"
        raise Unserved(f"{kind} yields rows; {'give a list of result types' if guest else 'use @udtf'}")
    return body


def _columns(declaration: Declaration, call: object) -> tuple:
    """((name, type, nullable) of each argument, (type, nullable) of the result)."""
    shape, options = shape_of(call), declaration.options
    if isinstance(declaration.body, type):
        del shape.parameters[:1]
    type_of = column_type
    if declaration.source:
        from udfgate_worker.guesttypes import guest_shape, guest_type, guest_value

        guest_shape(declaration.source, shape, options)
        type_of = partial(guest_type, declaration.source)
    given = options.get("input_types")
    args = _hinted(shape) if given is None else _given(shape, given, type_of)
    try:
        if declaration.source and declaration.kind == "table":
            return args, guest_value(declaration.source, options)
        if declaration.kind == "table":
            from udfgate_worker.tabletypes import table_value

            return args, table_value(options, shape, type_of)
        if "result_type" in options:
            return args, type_of(options["result_type"])
        if shape.returns is NO_HINT:
            raise Unserved("no type hint; add one or give result_type")
        return args, hint_type(shape.returns, shape.scope)
    except Unserved as e:
        raise Unserved(f"result: {e}") from None


def _hinted(shape: Shape) -> list:
    """Arguments by their hints. Trailing parameters with a default and no hint are left to it."""
    if not shape.known:
        raise Unserved("the body has no Python signature; give input_types and result_type")
    parameters = shape.parameters
    while parameters and parameters[-1].optional and parameters[-1].hint is NO_HINT:
        parameters.pop()
    if shape.rest:
        raise Unserved(f"*{shape.rest} takes any number of arguments; give input_types")
    args = []
    for parameter in parameters:
        try:
            if parameter.hint is NO_HINT:
                raise Unserved("no type hint; add one or give input_types")
            args.append((parameter.name, *hint_type(parameter.hint, shape.scope)))
        except Unserved as e:
            raise Unserved(f"parameter {parameter.name}: {e}") from None
    return args


def _given(shape: Shape, types: list, type_of: object) -> list:
    """Arguments by input_types, which may leave out parameters that have a default."""
    names = [parameter.name for parameter in shape.parameters]
    needed = len([parameter for parameter in shape.parameters if not parameter.optional])
    if shape.known and not needed <= len(types) <= (1 << 16 if shape.rest else len(names)):
        wanted = f"{needed}" if needed == len(names) else f"{needed} to {len(names)}"
        raise Unserved(f"input_types has {len(types)} types, the body takes {wanted} parameters ({', '.join(names)})")
    prefix = shape.rest or "arg"
    names += [f"{prefix}{number}" for number in range(len(types) - len(names))]
    args = []
    for name, given in zip(names, types):
        try:
            args.append((name, *type_of(given)))
        except Unserved as e:
            raise Unserved(f"parameter {name}: {e}") from None
    return args
