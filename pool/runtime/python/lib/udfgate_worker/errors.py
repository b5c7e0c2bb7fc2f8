"""What a raise looks like from outside: class, text, traceback of the user's frames, file and line."""

import os

from udfgate_worker import BUILTINS as __builtins__  # noqa: F401
from udfgate_worker.frames import (
    CLASS_BYTES_MAX,
    ERROR_HEAD,
    MISFIT,
    NO_ROW,
    RAISED,
    TEXT_BYTES_MAX,
    TRACE_BYTES_MAX,
    ProtocolError,
)
from udfgate_worker.library import library
from udfgate_worker.strict import Misfit, type_name

LIBRARY = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_OURS = (LIBRARY, "<frozen importlib")
raised_at = vars(BaseException)["__traceback__"].__get__  # past any property of the class


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
        self.file, self.line, self.trace = file, line, ""


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


def failed_text(name: str, text: str) -> str:
    """What an error column says of a failed row: class and text as one, cut to what the protocol allows."""
    name = str(cut(name, CLASS_BYTES_MAX), "utf-8")
    return str(cut(f"{name}: {text}" if name and text else name + text, TEXT_BYTES_MAX), "utf-8")


def raised(row: int, error: BaseException) -> Failure:
    """The body raised at this row."""
    return Failure(row, RAISED, type_name(error), text_of(error), traceback_of(error))


def misfit(row: int, error: Misfit) -> Failure:
    """A value does not fit; row is the batch's row of the block's first value."""
    return Failure(row + error.row, MISFIT, error.name, error.text)


def encode_failed(row: int, error: BaseException) -> Failure:
    """What an encoder raised over a body's values. What the protocol or Region raised is raised again."""
    if issubclass(type(error), Misfit):
        return misfit(row, error)
    if issubclass(type(error), ProtocolError):
        raise error
    return raised(row, error)


def no_row(text: str) -> Failure:
    """The call could not be run at all, or a list function's answer is none."""
    return Failure(0, NO_ROW, "", text)


def all_rows(error: BaseException) -> Failure:
    """The body raised over all rows of the segment."""
    return Failure(0, NO_ROW, type_name(error), text_of(error), traceback_of(error))


def traceback_of(error: BaseException, ours: tuple = _OURS) -> str:
    """The traceback as Python prints it, without the frames that are ours. Never raises."""
    try:
        report = library("traceback").TracebackException(type(error), error, raised_at(error))
        _strip(report, ours, set())
        return "".join(report.format())
    except BaseException:
        return _plain_traceback(error, ours)


def _strip(report, ours: tuple, seen: set) -> None:
    """Take our frames out of a report and of those chained to it."""
    if report is None or id(report) in seen:
        return
    seen.add(id(report))
    report.stack[:] = [frame for frame in report.stack if not frame.filename.startswith(ours)]
    for other in (report.__cause__, report.__context__, *(getattr(report, "exceptions", None) or ())):
        _strip(other, ours, seen)


def _user_frames(error: BaseException, ours: tuple = _OURS) -> list:
    """(file, line, function) of the frames that are not ours, outermost first, the last hundred."""
    frames, at = [], raised_at(error)
    while at is not None:
        code = at.tb_frame.f_code
        if not code.co_filename.startswith(ours):
            frames.append((code.co_filename, at.tb_lineno, code.co_name))
        at = at.tb_next
    return frames[-100:]


def _plain_traceback(error: BaseException, ours: tuple = _OURS) -> str:
    """For when the traceback module cannot be had."""
    lines = [f'  File "{file}", line {line}, in {name}\n' for file, line, name in _user_frames(error, ours)]
    return "".join(["Traceback (most recent call last):\n", *lines, f"{type_name(error)}: {text_of(error)}\n"])


def describe(error: BaseException, folders: tuple = (), importing: str = "") -> dict:
    """The error of a LOADED frame: class, message, file, line, traceback. Never raises.

    File and line are those of a SyntaxError itself, else of the innermost frame below one of the folders, else of the
    innermost that is not ours. Where none of them is known it is the file under import.
    """
    name, text = cut(type_name(error), CLASS_BYTES_MAX).decode(), text_of(error)
    file = trace = ""
    line = 0
    if issubclass(type(error), LoadError):
        file, line, trace = error.file, error.line, tail(error.trace, TRACE_BYTES_MAX).decode()
    else:
        try:
            file, line, text = _blamed(error, folders, text)
        except BaseException:  # the attributes of a raise are its class's code
            pass
        trace = tail(traceback_of(error), TRACE_BYTES_MAX).decode()
    text = cut(text, TEXT_BYTES_MAX).decode()
    return {"class": name, "message": text, "file": file or importing, "line": line, "traceback": trace}


def _blamed(error: BaseException, folders: tuple, text: str) -> tuple:
    """File, line and message of a raise that is not ours."""
    if issubclass(type(error), SyntaxError):
        file, line, message = error.filename, error.lineno, error.msg
        if type(file) is str and file:
            return file, line if type(line) is int else 0, message if type(message) is str and message else text
    frames = _user_frames(error)
    inside = [frame for frame in frames if folders and frame[0].startswith(folders)]
    return (*(inside or frames)[-1][:2], text) if frames else ("", 0, text)
