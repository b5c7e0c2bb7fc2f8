"""Bodies over whole columns that do next to nothing, so that what the gateway adds is seen."""

from __future__ import annotations

from typing import Any

from udfgate import udf


@udf(input_types=["BIGINT"], result_type="BIGINT", mode="arrow")
def noop(column: Any) -> Any:
    return column


@udf(input_types=["VARCHAR"], result_type="VARCHAR", mode="arrow")
def noop_text(column: Any) -> Any:
    return column
