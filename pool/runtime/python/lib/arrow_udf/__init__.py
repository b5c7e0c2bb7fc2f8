"""Lets files that were written for the Python server of arrow-udf 0.3 load unchanged: `from arrow_udf import udf`."""

from udfgate.guests import Server, absent, guest, threads

__all__ = ["DecimalType", "JsonType", "UdfServer", "udf", "udtf"]


def udf(
    input_types: object,
    result_type: object,
    name: "str | None" = None,
    io_threads: "int | None" = None,
    batch: bool = False,
    skip_null: bool = False,
) -> object:
    """A scalar function. io_threads has no effect on a body over lists, as in arrow-udf."""
    return guest(
        "arrow_udf",
        "scalar",
        {
            "input_types": input_types,
            "result_type": result_type,
            "name": name,
            "io_threads": None if batch else threads(io_threads),
            "batch": bool(batch),
            "skip_null": bool(skip_null),
        },
    )


def udtf(input_types: object, result_types: object, name: "str | None" = None) -> object:
    """A table function. Of a list of types, of one type too, each value is a struct; its members have no names."""
    several = isinstance(result_types, list)
    options = {"input_types": input_types, "result_types" if several else "result_type": result_types, "name": name}
    return guest("arrow_udf", "table", options)


class UdfServer(Server):
    """The server, in name only."""


class JsonType:
    """Names JSON in input_types and result_type: JsonType()."""


class DecimalType:
    """Names a decimal without precision in input_types and result_type: DecimalType()."""


def __getattr__(name: str) -> object:
    raise absent(__name__, name)
