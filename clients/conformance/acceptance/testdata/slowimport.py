"""A module whose import takes 300 ms, as with a heavy library."""

from __future__ import annotations

import time

from udfgate import udf

time.sleep(0.3)


@udf
def twice(x: int) -> int:
    return 2 * x
