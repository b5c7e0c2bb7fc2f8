"""What the modules arrow_udf and databend_udf share: files written for those servers are served unchanged."""

from udfgate.declare import IO_THREADS_MAX, declare


def guest(source: str, kind: str, options: dict) -> object:
    """A decorator that notes a function of another package's file. Options that are None were not given."""

    def decorate(body: object) -> object:
        if options.get("name") is None and not hasattr(body, "__name__"):
            options["name"] = type(body).__name__
        return declare(kind, body, options, source)

    return decorate


def threads(wanted: "int | None") -> "int | None":
    """io_threads as those packages have it: none below 2, and any number, of which IO_THREADS_MAX are enough."""
    return min(wanted, IO_THREADS_MAX) if wanted and wanted > 1 else None


class Server:
    """Stands for the server of a function file. The gateway is the server: nothing is started."""

    def __init__(self, location: str = "0.0.0.0:8815", **_options: object) -> None:
        self._location, self.functions = location, []

    def add_function(self, function: object) -> None:
        """Taken note of: served if the file binds this server at its top level, as what it binds there itself."""
        self.functions.append(function)

    def serve(self) -> None:
        """Always raises."""
        raise RuntimeError('the gateway serves this file; put serve() under if __name__ == "__main__":')


class Later:
    """Base of names that files import, for annotations say, and that cannot be used yet."""

    def __init__(self, *_args: object, **_options: object) -> None:
        kind = type(self)
        raise RuntimeError(f"{kind.__module__.partition('.')[0]}.{kind.__name__} is not supported yet")


def absent(module: str, name: str) -> Exception:
    """For a module's __getattr__. Dunder names are asked for by the interpreter and never there."""
    if name.startswith("__"):
        return AttributeError(name)
    return ImportError(f"{module}.{name} is not supported yet, or does not exist")
