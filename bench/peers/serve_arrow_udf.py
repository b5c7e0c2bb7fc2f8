"""The bodies behind arrow-udf's own server.    serve_arrow_udf.py HOST:PORT"""

from __future__ import annotations

import sys

from arrow_udf import UdfServer, udf
from bodies import FUNCTIONS


def main() -> None:
    server = UdfServer(location=sys.argv[1])
    for name, function in FUNCTIONS.items():
        declare = udf(input_types=function.arguments, result_type=function.result, name=name)
        server.add_function(declare(function.body))
    server.serve()


if __name__ == "__main__":
    main()
