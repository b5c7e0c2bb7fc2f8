"""The bodies behind databend-udf's own server.    serve_databend.py HOST:PORT

With io_threads=1: the library's default of 32 makes every row a task of a thread pool, which only slows these bodies
down. A function whose name ends with _shipped has that default.
"""

from __future__ import annotations

import logging
import sys

from bodies import FUNCTIONS
from databend_udf import UDFServer, udf

DATABEND_NAMES = {"BYTEA": "BINARY"}


def main() -> None:
    logging.basicConfig(level=logging.ERROR)  # it logs every call at INFO
    server = UDFServer(location=sys.argv[1])
    for name, function in FUNCTIONS.items():
        declare = udf(
            input_types=[DATABEND_NAMES.get(t, t) for t in function.arguments],
            result_type=DATABEND_NAMES.get(function.result, function.result),
            name=name,
            **({} if name.endswith("_shipped") else {"io_threads": 1}),
        )
        server.add_function(declare(function.body))
    server.serve()


if __name__ == "__main__":
    main()
