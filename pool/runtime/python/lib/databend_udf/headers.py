"""What a body sees of the request: its headers, and whether its caller has gone."""

from _thread import allocate_lock

import udfgate

TENANT, QUERY, STAGES = "x-databend-tenant", "x-databend-query-id", "databend-stage-mapping"
_lock = allocate_lock()
_last: list = [(None, None, 0)]  # the context of the call that asked last, its Headers, and when its frame came
_calls: list = []  # the worker's calls, once one has asked


class QueryCancelledError(RuntimeError):
    """A body was to be called after its query had been cancelled."""


class QueryState:
    """Whether a query goes on."""

    def __init__(self, context: object = None) -> None:
        """context: what udfgate.context() gives, or anything with is_cancelled()."""
        self._cancelled, self._context = False, context

    def is_cancelled(self) -> bool:
        """True after cancel(), and once the caller has gone. Asking costs little: at most a message every 10 ms."""
        if self._cancelled:
            return True
        asks = getattr(self._context, "cancelled", None) or getattr(self._context, "is_cancelled", None)
        try:
            return asks is not None and bool(asks())
        except RuntimeError:  # the call is over, and nobody waits for an answer
            return False

    def cancel(self) -> None:
        """The rows of this batch that have not begun end with QueryCancelledError."""
        self._cancelled = True


class Headers:
    """Headers of a request by their names in any case. Credentials, and what the transport keeps to itself, are not among them.

    `raw_headers`: name → list of values. `tenant` and `queryid`: of Databend's request, or "". `query_state`: a QueryState.
    """

    def __init__(self, headers: "dict | None" = None, context: object = None) -> None:
        """headers: name → value or list of values, each a str or the bytes of one."""
        self.raw_headers = headers or {}
        self.query_state = QueryState(context)
        self._values = {name.lower(): _texts(values) for name, values in self.raw_headers.items()}
        self._stages: dict | None = None
        self.checked: dict = {}  # stages that a function's parameters were given, by function
        self.tenant, self.queryid = self.get(TENANT, ""), self.get(QUERY, "")

    def get(self, key: str, default: "str | None" = None) -> "str | None":
        """The first value of a header."""
        values = self.get_all(key)
        return values[0] if values else default

    def get_all(self, key: str) -> list:
        """All values of a header."""
        return list(self._values.get(key.lower(), ()))

    @property
    def stage_locations(self) -> dict:
        """The stages that the request names: parameter → StageLocation."""
        return dict(self._located())

    def get_stage_location(self, name: str) -> object:
        """The stage of a parameter, or None."""
        return self._located().get(name)

    def require_stage_locations(self, names: list) -> dict:
        """The stages of parameters. Raises ValueError if the request lacks one."""
        located = self._located()
        lacks = sorted([name for name in names if name not in located])
        if lacks:
            raise ValueError(
                f"Missing stage mapping for parameter(s): {', '.join(lacks)}; the request's header {STAGES} has none. "
                f"CREATE FUNCTION … ({lacks[0]} STAGE_LOCATION, …) makes Databend send it"
            )
        return {name: located[name] for name in names}

    def _located(self) -> dict:
        if self._stages is None:
            from databend_udf.stages import read_mapping

            text = self.get(STAGES)
            self._stages = read_mapping(self.get(STAGES.replace("-", "_")) if text is None else text)
        return self._stages


def current() -> Headers:
    """The Headers of the call that is running: the same object for all of its rows."""
    _, headers, received = _last[0]
    if received and _calls[0].received == received:  # per row, so without asking for the context
        return headers
    context = udfgate.context()
    with _lock:
        if not _calls:
            from udfgate_worker.asking import asking

            _calls.append(asking().calls)
        last, headers, _ = _last[0]
        if last is not context:
            given = context.headers
            headers = Headers({name: given.get_all(name) for name in given}, context)
        _last[0] = context, headers, _calls[0].received
        return headers


def _texts(values: object) -> list:
    if not isinstance(values, (list, tuple)):
        values = [values]
    return [value.decode("utf-8") if isinstance(value, bytes) else str(value) for value in values]
