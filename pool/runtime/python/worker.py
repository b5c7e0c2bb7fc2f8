"""Entry of the worker: `python -I …/worker.py`, with the protocol socket as descriptor 3.

Kept short: a script, unlike a module, is compiled anew at every start.
"""

import sys

if __name__ == "__main__":
    sys.path.insert(0, (__file__.rpartition("/")[0] or ".") + "/lib")
    from udfgate_worker.serve import main

    main()
