"""context().logger: records of the standard logging that go to the gateway's log."""

import logging

_LEVELS = (
    (logging.CRITICAL, "critical"),
    (logging.ERROR, "error"),
    (logging.WARNING, "warning"),
    (logging.INFO, "info"),
)


class _ToGateway(logging.Handler):
    def __init__(self, asking: object, running: object) -> None:
        super().__init__()
        self._asking, self._running = asking, running

    def emit(self, record: logging.LogRecord) -> None:
        """Send a record. RuntimeError when the call is over: nothing is lost in silence."""
        level = next((name for number, name in _LEVELS if record.levelno >= number), "debug")
        self._asking.log(self._running, level, self.format(record))


def logger(asking: object, running: object) -> logging.Logger:
    """A logger of one call, below no other: files set up logging for themselves as they like."""
    made = logging.Logger(running.function.canonical, logging.DEBUG)
    made.addHandler(_ToGateway(asking, running))
    return made
