"""For each type and mode: a function that answers what it is given, and one that tells what it was given."""

from __future__ import annotations

import telling
from kinds import DECLARED, MODES, served, tell
from udfgate import udf

for _mode in MODES:
    _tell = tell if _mode == "row" else getattr(telling, f"tell_{_mode}")
    for _key in served(_mode):
        for _does, _body, _result in (("same", None, DECLARED[_key]), ("told", _tell, "large_string")):
            _name = f"{_does}_{_mode}_{_key}"
            globals()[_name] = udf(
                lambda value, _body=_body: _body(value) if _body else value,
                name=_name,
                mode=_mode,
                input_types=[DECLARED[_key]],
                result_type=_result,
            )


@udf(input_types=[], result_type="BIGINT")
def nothing():
    return 42


@udf(mode="list", input_types=["BIGINT", "VARCHAR"], result_type="VARCHAR")
def both(numbers, texts):
    return [f"{number}/{text}" for number, text in zip(numbers, texts)]
