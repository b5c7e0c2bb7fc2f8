"""The names of databend_udf.udf that function files use."""

from udfgate.guests import Server, guest, threads

from databend_udf.headers import Headers, QueryCancelledError, QueryState

__all__ = ["ConcurrencyLimitExceeded", "Headers", "QueryCancelledError", "QueryState", "UDFServer", "udf"]


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
    """A scalar function; a list of result types, a schema or a field makes it a table function.

    concurrency_timeout: seconds. skip_null and io_threads have no effect on a body over lists, as in databend-udf.
    """
    kind = type(result_type)
    table = issubclass(kind, (list, tuple)) or (
        kind.__module__ == "pyarrow.lib" and kind.__name__ in ("Schema", "Field")
    )
    options = {"input_types": input_types, "name": name, "stage_refs": stage_refs or None}
    if table:
        options["result_types"] = [result_type] if kind.__name__ == "Field" else list(result_type)
        options["skip_null"], options["rows_of_lists"] = bool(skip_null), bool(batch_mode)
    else:
        options["result_type"], options["batch_mode"] = result_type, bool(batch_mode)
        options["skip_null"] = bool(skip_null) and not batch_mode
        options["io_threads"] = None if batch_mode else threads(io_threads)
    options["max_concurrency"] = max_concurrency
    options["concurrency_timeout"] = None if max_concurrency is None else concurrency_timeout
    return guest("databend_udf", "table" if table else "scalar", options)


class UDFServer(Server):
    """The server, in name only."""


class ConcurrencyLimitExceeded(Exception):
    """For files that catch it; never raised here: the gateway answers the caller itself."""


def __getattr__(name: str) -> object:
    if name == "StageLocation":  # its module loads dataclasses and logging
        from databend_udf.stages import StageLocation

        return StageLocation
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
