"""Modules of the standard library, whatever files of the same names lie in the served folders."""

import sys

from udfgate_worker import BUILTINS as __builtins__  # noqa: F401

_START_PATH = list(sys.path)  # before served folders and bodies changed it


def library(name: str) -> object:
    """A module of the standard library. A served file may have taken its name before: be ready for anything."""
    found = sys.path
    try:
        sys.path = list(_START_PATH)
        return __import__(name)
    finally:
        sys.path = found


def near(word: str, words: list) -> str:
    """What the word may have been meant to be, as the end of a message, or nothing. Never raises."""
    try:
        close = library("difflib").get_close_matches(word, words, 1)
        return f"; did you mean {close[0]}?" if close else ""
    except BaseException:
        return ""
