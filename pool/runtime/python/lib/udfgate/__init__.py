"""What served files import: `from udfgate import udf`. The gateway supplies this package to its workers.

@udf
def gcd(a: int, b: int) -> int: ...

@udf(input_types=["VARCHAR"], result_type="VARCHAR", timeout="2s")
def clean(s): ...

@udf
class Scorer:  # one instance per worker process
    def __call__(self, x: float) -> float: ...
"""

from udfgate.declare import udaf, udf, udtf

__all__ = ["context", "counter", "udaf", "udf", "udtf"]


def context() -> object:
    """Call id, principal, headers, remaining(), cancelled() and logger of the running call."""
    raise NotImplementedError("udfgate.context() is not supported yet")


def counter(name: str) -> object:
    """A counter that is committed once per delivered chunk."""
    raise NotImplementedError(f"udfgate.counter({name!r}) is not supported yet")
