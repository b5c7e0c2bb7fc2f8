"""The functions that tools of databend-udf ask every server for."""

from databend_udf.udf import udf


@udf(input_types=["VARCHAR"], result_type="VARCHAR", io_threads=None)
def builtin_echo(a: str) -> str:
    """What was sent."""
    return a


@udf(input_types=[], result_type="INT", io_threads=None)
def builtin_healthy() -> int:
    """1, from any server that works."""
    return 1
