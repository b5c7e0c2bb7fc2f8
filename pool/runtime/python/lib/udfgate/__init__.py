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

__all__ = ["Interval", "context", "counter", "udaf", "udf", "udtf"]


def __getattr__(name: str) -> object:
    if name == "Interval":
        from udfgate.interval import Interval

        return Interval
    if name in ("context", "counter"):
        from udfgate.context import context, counter

        globals().update(context=context, counter=counter)  # importing it has bound the name context to the module
        return globals()[name]
    raise AttributeError(f"module 'udfgate' has no attribute {name!r}")
