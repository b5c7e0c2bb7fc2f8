"""The names of databend_udf.udf that function files use."""

from udfgate.guests import Later, Server, guest


def udf(
    input_types: object,
    result_type: object,
    name: "str | None" = None,
    stage_refs: "list | None" = None,
    io_threads: "int | None" = 32,
    skip_null: "bool | None" = False,
    batch_mode: "bool | None" = False,
    max_concurrency: "int | None" = None,
    concurrency_timeout: "float | None" = None,
) -> object:
    """A scalar function; a list of result types, a schema or a field makes it a table function, refused at load.

    io_threads, max_concurrency and concurrency_timeout change no answer and are not acted upon. skip_null has no
    effect on a body over lists, as in databend-udf.
    """
    kind = type(result_type)
    table = issubclass(kind, (list, tuple)) or (
        kind.__module__ == "pyarrow.lib" and kind.__name__ in ("Schema", "Field")
    )
    options = {"input_types": input_types, "name": name, "batch_mode": bool(batch_mode)}
    options["result_types" if table else "result_type"] = [result_type] if table else result_type
    options["skip_null"] = bool(skip_null) and not batch_mode
    options["stage_refs"] = stage_refs or None
    return guest("databend_udf", "table" if table else "scalar", options)


class UDFServer(Server):
    """The server, in name only."""


class Headers(Later):
    """The headers of a request."""


class QueryState(Later):
    """The state of a query."""


class StageLocation(Later):
    """Where files of a stage lie."""


class QueryCancelledError(RuntimeError):
    """For files that catch it; never raised here."""


class ConcurrencyLimitExceeded(Exception):
    """For files that catch it; never raised here."""
