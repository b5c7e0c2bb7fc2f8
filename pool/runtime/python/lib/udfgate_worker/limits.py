"""Options that bound how much of a function runs at once: in one worker, and in all of them."""

from udfgate_worker import BUILTINS as __builtins__  # noqa: F401
from udfgate_worker.typenames import Unserved


def rows_at_once(options: dict, mode: str, coroutine: bool) -> int:
    """How many rows of a body that waits one worker runs at once; 1: one after the other. Raises Unserved."""
    given = options.get("io_threads")
    if mode != "row":
        if given not in (None, 1):
            raise Unserved(
                f"io_threads={given} is for bodies over single rows; a body over columns (mode {mode}) is called once"
            )
        return 1
    if not coroutine:
        return given or 1
    from udfgate_worker.waiting import ASYNC_ROWS_DEFAULT

    return given or ASYNC_ROWS_DEFAULT


def chunk_limits(options: dict) -> dict:
    """The entries of LOADED: chunks at once in all workers, how long a further one waits (ns), rows of one call."""
    names = [name for name in ("concurrency", "max_concurrency", "max_workers") if name in options]
    if "concurrency_timeout" in options and not names:
        raise Unserved("concurrency_timeout says how long to wait for one of max_concurrency; give that too")
    return {
        "concurrency": min([options[name] for name in names], default=0),
        "concurrency_wait_ns": options.get("concurrency_timeout", 0),
        "max_batch_rows": options.get("max_batch_rows", 0),
    }
