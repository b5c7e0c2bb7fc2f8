"""What a raise looks like from outside: class, text, traceback of the user's frames, file and line."""

import os
import sys

from udfgate_worker import BUILTINS as __builtins__  # noqa: F401
from udfgate_worker.frames import (
    CLASS_BYTES_MAX,
    ERROR_HEAD,
    MISFIT,
    NO_ROW,
    RAISED,
    TEXT_BYTES_MAX,
    TRACE_BYTES_MAX,
)
from udfgate_worker.strict import Misfit, type_name

LIBRARY = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_OURS = (LIBRARY, "<frozen importlib")
_START_PATH = list(sys.path)  # before served folders and bodies changed it


def cut(text: str, most: int) -> bytes:
    """UTF-8 of the text, at most `most` bytes, whole characters; lone surrogates are spelled out."""
    data = text[:most].encode("utf-8", "backslashreplace")
    return data if len(data) <= most else data[:most].decode("utf-8", "ignore").encode()


def tail(text: str, most: int) -> bytes:
    """As cut, keeping the end: the innermost frames and the message."""
    data = text[-most:].encode("utf-8", "backslashreplace")
    return data if len(data) <= most else data[-most:].decode("utf-8", "ignore").encode()


def text_of(error: BaseException) -> str:
    """str(error), whatever the class is up to."""
    try:
        return str.__str__(str(error))
    except BaseException as e:
        return f"(no text: {type_name(e)})"


class LoadError(Exception):
    """A module cannot be served; says what to change. File and line are those of the function at fault, if any."""

    def __init__(self, message: str, file: str = "", line: int = 0) -> None:
        super().__init__(message)
        self.file, self.line = file, line


class Failure:
    """One entry of the errors of a RESULT. The row is counted in the batch."""

    __slots__ = ("kind", "name", "row", "text", "trace")

    def __init__(self, row: int, kind: int, name: str, text: str, trace: str = "") -> None:
        self.row, self.kind, self.name, self.text, self.trace = row, kind, name, text, trace

    def pack(self) -> bytes:
        """The entry as it stands in the frame, each part cut to what the protocol allows."""
        name, text = cut(self.name, CLASS_BYTES_MAX), cut(self.text, TEXT_BYTES_MAX)
        trace = tail(self.trace, TRACE_BYTES_MAX)
        return ERROR_HEAD.pack(self.row, self.kind, len(name), len(text), len(trace), 0) + name + text + trace


def raised(row: int, error: BaseException) -> Failure:
    """The body raised at this row."""
    return Failure(row, RAISED, type_name(error), text_of(error), traceback_of(error))


def misfit(row: int, error: Misfit) -> Failure:
    """A value does not fit; row is the batch's row of the block's first value."""
    return Failure(row + error.row, MISFIT, error.name, error.text)


def no_row(text: str) -> Failure:
    """The call could not be run at all."""
    return Failure(0, NO_ROW, "", text)


def traceback_of(error: BaseException) -> str:
    """The traceback as Python prints it, without the worker's own frames. Never raises."""
    found = sys.path
    try:
        sys.path = list(_START_PATH)  # the standard library's modules, not a served file of the same name
        import traceback
    except BaseException:
        return _plain_traceback(error)
    finally:
        sys.path = found
    try:
        report = traceback.TracebackException(type(error), error, error.__traceback__)
        _strip(report, set())
        return "".join(report.format())
    except BaseException:
        return _plain_traceback(error)


def _strip(report, seen: set) -> None:
    """Take our frames out of a report and of those chained to it."""
    if report is None or id(report) in seen:
        return
    seen.add(id(report))
    report.stack[:] = [frame for frame in report.stack if not frame.filename.startswith(_OURS)]
    for other in (report.__cause__, report.__context__, *(getattr(report, "exceptions", None) or ())):
        _strip(other, seen)


def _user_frames(error: BaseException) -> list:
    """(file, line, function) of the frames that are not ours, outermost first, the last hundred."""
    frames, at = [], error.__traceback__
    while at is not None:
        code = at.tb_frame.f_code
        if not code.co_filename.startswith(_OURS):
            frames.append((code.co_filename, at.tb_lineno, code.co_name))
        at = at.tb_next
    return frames[-100:]


def _plain_traceback(error: BaseException) -> str:
    """For when the traceback module cannot be had."""
    lines = [f'  File "{file}", line {line}, in {name}\n' for file, line, name in _user_frames(error)]
    return "".join(["Traceback (most recent call last):\n", *lines, f"{type_name(error)}: {text_of(error)}\n"])


def describe(error: BaseException, folders: tuple = ()) -> dict:
    """The error of a LOADED frame: class, message, file, line, traceback.

    File and line are those of a SyntaxError itself, else of the innermost frame below one of the folders, else of the
    innermost that is not ours.
    """
    file, line, message = "", 0, text_of(error)
    if isinstance(error, LoadError):
        return {"class": "LoadError", "message": message, "file": error.file, "line": error.line, "traceback": ""}
    if isinstance(error, SyntaxError) and error.filename:
        file, line, message = error.filename, error.lineno or 0, error.msg or message
    else:
        frames = _user_frames(error)
        inside = [frame for frame in frames if folders and frame[0].startswith(folders)]
        if frames:
            file, line, _ = (inside or frames)[-1]
    trace = tail(traceback_of(error), TRACE_BYTES_MAX).decode()
    return {"class": type_name(error), "message": message, "file": file, "line": line, "traceback": trace}
