"""Lets files that were written for the Python server of databend-udf 0.2 load unchanged: `from databend_udf import udf`."""

from udfgate.guests import absent

from databend_udf.client import UDFClient, create_client
from databend_udf.udf import (
    ConcurrencyLimitExceeded,
    Headers,
    QueryCancelledError,
    QueryState,
    UDFServer,
    udf,
)

__all__ = [
    "ConcurrencyLimitExceeded",
    "Headers",
    "QueryCancelledError",
    "QueryState",
    "StageLocation",
    "UDFClient",
    "UDFServer",
    "create_client",
    "udf",
]


def __getattr__(name: str) -> object:
    if name == "StageLocation":
        from databend_udf.stages import StageLocation

        return StageLocation
    raise absent(__name__, name)
