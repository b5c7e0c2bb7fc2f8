"""The gateway's Python worker: runs served functions over the worker protocol, on the standard library alone.

BUILTINS is a copy of the builtins taken before any served file runs. Every module here has it as its own
`__builtins__`, so a body that deletes or replaces `len` or `map` breaks itself and not the worker.
"""

import builtins

BUILTINS = dict(vars(builtins))
