"""For each type and mode: a function whose answer is what a text says in Python, NOT NULL and nullable."""

from __future__ import annotations

import numpy
import pandas
import polars
import pyarrow
from kinds import MODES, MORE, served
from oddities import made, use
from udfgate import udf

use(np=numpy, pd=pandas, pl=polars, pa=pyarrow)


def made_all(texts):
    """Of a list, an array or a Series."""
    return list(map(made, texts.to_pylist() if hasattr(texts, "to_pylist") else texts))


def first(texts):
    text = texts[0]
    return made(text if isinstance(text, str) else str(text))


for _mode in MODES:
    for _key, _type in {**served(_mode), **MORE}.items():
        _bodies = {
            "any": (made if _mode == "row" else made_all, ""),
            "sure": (made if _mode == "row" else made_all, " NOT NULL"),
        }
        if _mode != "row":  # the first row says the answer as a whole, of whatever library
            _bodies["whole"] = (first, "")
        for _does, (_body, _suffix) in _bodies.items():
            _name = f"{_does}_{_mode}_{_key}"
            globals()[_name] = udf(
                lambda texts, _body=_body: _body(texts),
                name=_name,
                mode=_mode,
                input_types=["VARCHAR"],
                result_type=_type + _suffix,
            )
