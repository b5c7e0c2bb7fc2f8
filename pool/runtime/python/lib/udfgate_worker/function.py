"""A function as the calls see it: body, readers of its arguments, encoder of its result."""

from struct import Struct

from udfgate_worker import BUILTINS as __builtins__  # noqa: F401
from udfgate_worker.decode import readers, usual_form
from udfgate_worker.encode import encoder
from udfgate_worker.frames import CALL_BYTES, SEGMENT_BYTES, TWO_BUFFERS, WIDTH_TWO


class Function:
    """One served function of this worker.

    `length`, `columns` and `forms` describe the payload of the usual CALL: one segment, every column in the form that
    the gateway prefers for this worker. `ones` and `blocks` pair the readers with where their fields begin. `one`
    encodes a single row (see encode.py), `marshal` says that results are in marshal form.

    `listing`: the body takes whole columns, as lists or, with a vectors.Vector in `vector`, as a library's. `skip`: rows
    with a null argument are not given to it. `elementwise`: its rows do not depend on each other. `mutable`: an argument
    is of a class that a body can change. `table`: a table.Table, of a table function.
    """

    def __init__(self, name: str, body: object, args: list, names: list, result: tuple, views: dict) -> None:
        """args: types by position, and their names; result: (type, nullable); views as in Arenas. Raises Unserved."""
        self.listing, self.skip, self.elementwise, self.plain = False, False, True, True
        self.vector = self.waiting = self.table = None
        self.canonical, self.rows_max = name, 0
        self.name, self.body, self.args, self.names = name, body, args, names
        self.mutable = any([type(kind) is not str and kind.mutable() for kind in args])
        self.readers = [readers(kind, views) for kind in args]
        self.encoder = encoder(*result, views)
        self.one, self.marshal = self.encoder.single(), self.encoder.marshal
        self.columns = Struct("<" + TWO_BUFFERS * len(args))
        self.length = CALL_BYTES + SEGMENT_BYTES + self.columns.size
        self.forms = tuple([usual_form(kind) for kind in args])
        usual = [by_form[form] for by_form, form in zip(self.readers, self.forms)]
        self.ones = [(one, at * WIDTH_TWO) for at, (one, _) in enumerate(usual)]
        self.blocks = [(block, at * WIDTH_TWO) for at, (_, block) in enumerate(usual)]

    def wait(self, at_once: int, coroutine: bool, threads: int = 0) -> None:
        """The body waits: so many rows at once are run by `waiting`; what is a coroutine function is awaited.

        `body` stays what takes the arguments of one call and returns its value. threads: above 0 for a wrapper of a
        coroutine function, in so many threads if it turns out to return values.
        """
        if coroutine:
            from udfgate_worker.tasks import Tasks, awaited

            if not self.listing:
                plain = None
                if threads > 1:
                    from udfgate_worker.threads import Threads

                    plain = Threads(self.body, threads)
                self.waiting = Tasks(self.body, at_once, threads > 0, plain)
                self.plain, self.length = False, -1
            self.body = awaited(self.body)
        else:
            from udfgate_worker.threads import Threads, apart

            self.waiting = Threads(self.body, at_once)
            self.body = apart(self.body)

    def special(self, listing: bool, skip: bool, elementwise: bool) -> None:
        """Settle how rows go through the body. What is not the plain row mode has no usual CALL: length fits none."""
        self.listing, self.skip, self.elementwise = listing, skip, elementwise
        self.plain = not listing and not skip and self.table is None
        if not self.plain:
            from udfgate_worker import modes  # noqa: F401  now, not in the first call

            self.length = -1
