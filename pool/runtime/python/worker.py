"""Entry of the worker: `python -I …/worker.py`, with the protocol socket as descriptor 3.

Kept short: a script, unlike a module, is compiled anew at every start.
"""

import os
import sys


def compile_apart(lib: str) -> None:
    """Have a child compile the worker's modules, if nobody has: what compiling takes (1.2 MiB) would stay with a
    process that lives for days. Where no compiled files can be kept, or no child started, the worker compiles itself.
    """
    if os.path.isdir(lib + "/udfgate_worker/__pycache__") or not os.access(lib, os.W_OK):
        return
    try:
        child = os.fork()
    except OSError:
        return
    if child == 0:
        try:
            import udfgate.context
            import udfgate.logs  # noqa: F401
            from udfgate_worker import exact, guestparser, hints, load, modes, rich, serve, waiting, warmup  # noqa: F401
        finally:
            os._exit(0)
    os.waitpid(child, 0)


if __name__ == "__main__":
    lib = (__file__.rpartition("/")[0] or ".") + "/lib"
    sys.path.insert(0, lib)
    compile_apart(lib)
    from udfgate_worker.serve import main

    main()
