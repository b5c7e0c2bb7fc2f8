"""The bodies as a function file of udfgate: `udfgate serve bench/peers/functions.py`. All run in row mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import bodies
from udfgate import udf


def declare(name: str) -> Callable[..., Any]:
    function = bodies.FUNCTIONS[name]
    served: Callable[..., Any] = udf(input_types=function.arguments, result_type=function.result, name=name)(
        function.body
    )
    return served


gcd = declare("gcd")
gcd_shipped = declare("gcd_shipped")
affine = declare("affine")
clean = declare("clean")
parse_json = declare("parse_json")
days = declare("days")
identity = declare("identity")
noop = declare("noop")
