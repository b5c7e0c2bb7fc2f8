"""The modules of a LOAD: how a served file becomes a module, and what of a module is served."""

import os
import sys
from _frozen_importlib import module_from_spec
from _frozen_importlib_external import PathFinder, SourceFileLoader, spec_from_file_location

from udfgate.declare import Declaration, Declared, declarations

from udfgate_worker import BUILTINS as __builtins__  # noqa: F401
from udfgate_worker.errors import LoadError
from udfgate_worker.signature import GENERATORS, NO_HINT, WRAPPERS_MAX, Plain, Shape, flavour, shape_of
from udfgate_worker.typenames import Unserved

NOTHING = (
    "{}: nothing to serve: decorate functions with @udf (from udfgate import udf), "
    "or give public functions a type hint for every parameter and for the result"
)
UNSEEN = '; what is only given to a server under if __name__ == "__main__": is not seen'
SKIPPED_MAX = 100


class _Text(SourceFileLoader):
    """Compiles a served file from its own text, always: a compiled one in __pycache__ is taken for the text's as long
    as size and second of change are the same, and would run under the version of another text.
    """

    def get_code(self, fullname: str) -> object:
        """The code of the text."""
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)


class Served:
    """Finder of served modules that are imported by name, or by each other. files: by name, "" for one of the path."""

    def __init__(self, files: dict) -> None:
        self.files = files

    def find_spec(self, name: str, path: object = None, target: object = None) -> object:
        """The spec of a served module, if the path has it as a text."""
        file = self.files.get(name)
        spec = None if file is None else PathFinder.find_spec(name, path)
        if type(getattr(spec, "loader", None)) is not SourceFileLoader:
            return None
        if file and os.path.realpath(spec.origin) != os.path.realpath(file):
            return None
        spec.loader = _Text(name, spec.origin)
        return spec


def import_served(name: str, file: str) -> object:
    """The module of a served file under its name, or a module of the path."""
    known = sys.modules.get(name)
    if not file:
        if known is None:
            __import__(name)
        return sys.modules[name]
    if known is not None:
        origin = getattr(known, "__file__", None) or "the interpreter"
        if os.path.realpath(origin) == os.path.realpath(file):
            return known  # another served file has imported it
        raise LoadError(f"{file}: the module name {name} is taken by {origin}; rename the file", file)
    spec = spec_from_file_location(name, file, loader=_Text(name, file))
    module = module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        sys.modules.pop(name, None)
        raise
    return sys.modules.get(name, module)


def found_in(module: object, name: str, skipped: list) -> list:
    """The declarations bound at the module's top level, each once, and those added to its servers; else its own hinted
    functions as if declared.

    Of a module that serves by hints, functions whose hints are incomplete are noted in skipped: they look forgotten.
    """
    values = list(vars(module).values())
    found = _declared(values)
    if found:
        return found
    seen = set()
    for value in values:
        shape = None if id(value) in seen else _own(value, name)
        if shape is None:
            continue
        seen.add(id(value))
        lack = _lack(value, shape)
        if not lack:
            found.append(Declaration(value, "scalar", {}))
        elif len(skipped) < SKIPPED_MAX:
            skipped.append({"module": name, "name": value.__name__, "why": lack})
    if not found and not _serves_built_in(module):
        unseen = UNSEEN if "udfgate.guests" in sys.modules else ""
        raise LoadError(NOTHING.format(name) + unseen, getattr(module, "__file__", None) or "")
    return found


def _declared(values: list) -> list:
    """The declarations of what a module binds, in order, and then of what was added to the servers that it binds.

    A function around a declared one (functools.wraps above @udf) is served in its place, unless that is bound as well.
    """
    if "udfgate.guests" in sys.modules:
        from udfgate.guests import Server

        servers = [value for value in values if issubclass(type(value), Server)]
        values = values + [added for server in servers for added in server.functions]
    bound = {id(one) for value in values for one in declarations(value)}
    seen, found = set(), []
    for value in values:
        inner = _wrapped(value)
        wrapper = inner is not None and id(inner) not in bound
        for one in (inner,) if wrapper else declarations(value):
            if id(one) not in seen:
                seen.add(id(one))
                found.append(Declaration(value, one.kind, one.options, one.source) if wrapper else one)
    return found


def _wrapped(value: object) -> "Declaration | None":
    """What an undecorated function is the wrapper of, if that is declared."""
    for _ in range(WRAPPERS_MAX):
        its = type(value)  # whatever a class says of itself, and its metaclass of it
        if its is not Plain and type.__getattribute__(its, "__module__") != "functools":
            return None
        value = getattr(value, "__wrapped__", None)
        if issubclass(type(value), Declared):
            return value.declaration
    return None


def _serves_built_in(module: object) -> bool:
    """Whether a module without functions of its own has a server of databend-udf, whose own functions it serves."""
    if "databend_udf" not in sys.modules:
        return False
    from udfgate_worker.guesttypes import built_in

    return bool(built_in([module]))


def _own(value: object, module: str) -> "Shape | None":
    """The shape of an undecorated value that is a public function of the module and returns something."""
    if not isinstance(value, Plain) and not (type(value).__module__ == "functools" and hasattr(value, "__wrapped__")):
        return None
    if value.__module__ != module or value.__name__.startswith(("_", "<")):
        return None
    try:
        shape = shape_of(value)
    except Unserved:  # nobody asked for it to be served, so what cannot be called by position is passed over
        return None
    return None if shape.rest or shape.returns in (None, "None") else shape


def _lack(value: object, shape: Shape) -> str:
    """What a function lacks to be served without a decorator, or nothing."""
    if flavour(value) in GENERATORS:
        return "it yields rows; use @udtf"
    for parameter in shape.parameters:
        if not parameter.optional and parameter.hint is NO_HINT:
            return f"no type hint on parameter {parameter.name}"
    return "no type hint on the result" if shape.returns is NO_HINT else ""
