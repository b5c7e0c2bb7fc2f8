"""Bodies that have gone wrong for users of other systems, one for each case of test_reported.py."""

from __future__ import annotations

import array
import datetime as dt
import functools
import itertools
import logging
import math
import operator
import os
import subprocess
import sys
import threading
import time

import udfgate
from udfgate import udf, udtf

skip = functools.partial(udf, null_handling="skip")
log = logging.getLogger("reported")
logging.basicConfig()


@skip(input_types=["BIGINT"], result_type="BIGINT")
def logs(number):
    log.warning("number %s", number)
    return number + 1


@skip(input_types=["BIGINT"], result_type="BIGINT")
def logs_by_context(number):
    udfgate.context().logger.warning("number %s seen", number)
    return number


class Holder:
    def __init__(self):
        self.internal_lock = threading.RLock()


holder = Holder()


@skip(input_types=["BIGINT"], result_type="BIGINT")
def locks(number):
    with holder.internal_lock:
        return number


@udtf(input_types=["BIGINT"], result_types=["BIGINT"])
def below_three(number):
    if number < 3:
        yield number


@skip(input_types=["BIGINT"], result_type="BIGINT", max_workers=16)
def own_process(_):
    return os.getpid()


class Counted:
    seen = 0


@skip(input_types=["BIGINT"], result_type="BIGINT")
def remembers(_):
    Counted.seen += 1
    return Counted.seen


def plus(value, amount):
    return value + amount


partial = skip(name="partial", input_types=["BIGINT"], result_type="BIGINT")(functools.partial(plus, amount=1))
default = skip(name="default", input_types=["BIGINT"], result_type="BIGINT")(lambda value, factor=2: value * factor)
absolute = skip(name="absolute", input_types=["BIGINT"], result_type="BIGINT")(abs)
second = skip(name="second", input_types=["BIGINT[]"], result_type="BIGINT")(operator.itemgetter(1))


@skip(input_types=["BIGINT"], result_type="BIGINT")
def long_text(number):
    if number == 1:
        raise ValueError("x" * 30_000 + "AND-SO-IT-ENDS")
    return number


@skip(input_types=["BIGINT"], result_type="BIGINT")
def exits(number):
    if number == 1:
        sys.exit(3)
    return number


@skip(input_types=["BIGINT"], result_type="BIGINT")
def leaves(_):
    os._exit(9)


@skip(input_types=["BIGINT"], result_type="BIGINT")
def odd_text(_):
    raise ValueError("torn \udcfe and \x00 here")


@skip(input_types=["BIGINT"], result_type="BIGINT")
def interrupts(_):
    raise KeyboardInterrupt


@skip(input_types=["VARCHAR"], result_type="VARCHAR")
def locale(text):
    print("ß日")
    path = os.path.join(os.environ["TMPDIR"], "locale.txt")
    with open(path, "w") as file:
        file.write("ß")
    return "ß" + text + sys.getfilesystemencoding() + open(path, "rb").read().hex()


@skip(input_types=["BIGINT"], result_type="VARCHAR")
def prefix(_):
    return sys.prefix


@skip(input_types=["BIGINT"], result_type="VARCHAR")
def wide(size):
    return "w" * size


same_text = skip(name="same_text", input_types=["VARCHAR"], result_type="VARCHAR")(lambda text: text)


@skip(input_types=["STRUCT<n INT, word VARCHAR>"], result_type="VARCHAR")
def word_of(row):
    return row["word"]


negated = skip(name="negated", input_types=["BOOLEAN"], result_type="BOOLEAN")(lambda flag: not flag)
same_number = skip(name="same_number", input_types=["BIGINT"], result_type="BIGINT")(lambda number: number)


@skip(input_types=["VARCHAR[]"], result_type="VARCHAR[]")
def upper_all(words):
    return [word.upper() for word in words]


@skip(input_types=["extension<arrowudf.decimal>"], result_type="extension<arrowudf.decimal>")
def same_decimal(number):
    assert type(number).__name__ == "Decimal"
    return number


items = skip(name="items", input_types=["INT[]"], result_type="BIGINT")(len)


@skip(input_types=["BIGINT"], result_type="BIGINT")
def shifts(count):
    return 0xFFFFFFFF << (32 - count)


reciprocal = skip(name="reciprocal", input_types=["DOUBLE"], result_type="DOUBLE")(lambda x: 1.0 / x)
NUMERALS = {1: "one", 2: "two"}
numeral = skip(name="numeral", input_types=["BIGINT"], result_type="VARCHAR")(lambda n: NUMERALS.get(n, "many"))
there_and_back = skip(name="there_and_back", input_types=["BIGINT"], result_type="BIGINT")(lambda n: (n + 1) - 2)
squared = skip(name="squared", input_types=["BIGINT"], result_type="BIGINT")(lambda n: n * n // n)
rounded = skip(name="rounded", input_types=["DOUBLE"], result_type="BIGINT")(lambda x: round(x))
power = skip(name="power", input_types=["BIGINT"], result_type="BIGINT")(lambda n: 2**n)


@skip(input_types=["VARCHAR"], result_type="VARCHAR")
def cases(text):
    return "/".join([text.upper(), text.strip(), text[1:3], str(len(text))])


@skip(input_types=["BIGINT"], result_type="BIGINT")
def prints(number):
    print("no line end", end="")
    print('{"looks": "like JSON"}')
    return number + 1


@skip(input_types=["BIGINT"], result_type="BIGINT")
def writes_below(number):
    os.write(1, b"\xff\xff\xff\xff\x10\x00\x00\x00ARROW1")
    os.system("echo child; head -c 1000 /dev/zero")
    return number


@skip(input_types=["BIGINT"], result_type="VARCHAR")
def reads_input(_):
    return repr(sys.stdin.read())


@skip(input_types=["BIGINT"], result_type="BIGINT")
def leaves_a_child(_):
    return subprocess.Popen(["sleep", "600"]).pid


@skip(input_types=["BIGINT"], result_type="BIGINT")
def leaves_a_thread(number):
    threading.Thread(target=time.sleep, args=(3600,)).start()
    return number


@skip(input_types=["BIGINT"], result_type="BIGINT")
def ignores_the_end(number):
    import signal

    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    return number


@skip(input_types=["BIGINT"], result_type="BIGINT")
def sleeps(_):
    time.sleep(3600)


@skip(input_types=["BIGINT"], result_type="BIGINT")
def spins(_):
    while True:
        pass


@skip(input_types=["BIGINT"], result_type="BIGINT")
def open_files(_):
    return len(os.listdir("/proc/self/fd"))


@skip(input_types=["BIGINT"], result_type="VARCHAR")
def blas_threads(_):
    return os.environ.get("OMP_NUM_THREADS", "unset")


class once:
    made = 0

    def __init__(self):
        once.made += 1

    def __call__(self, _):
        return once.made


once = skip(input_types=["BIGINT"], result_type="BIGINT")(once)


@skip(input_types=["BIGINT"], result_type="BIGINT")
def closes_all(number):
    for fd in range(3, 64):
        try:
            os.close(fd)
        except OSError:
            pass
    return number


@skip(input_types=["VARCHAR", "BIGINT"], result_type="BIGINT")
def dies_midway(path, number):
    with open(path, "ab") as file:
        file.write(b".")
    if number == 2:
        os._exit(1)
    return number


@skip(input_types=["BIGINT"], result_type="STRUCT<n INT, note VARCHAR>")
def notes(_):
    return {"n": 1, "note": "c.[7A>G;12del]"}


def sorts(series):
    return series.sort_values()


sorts = skip(name="sorts", mode="pandas", input_types=["BIGINT"], result_type="BIGINT")(sorts)
empty_struct = skip(name="empty_struct", input_types=["BIGINT"], result_type="struct<>")(lambda _: {})
first_length = skip(name="first_length", input_types=["VARCHAR[]"], result_type="BIGINT")(lambda words: len(words[0]))
adds = skip(name="adds", input_types=["BIGINT", "BIGINT"], result_type="BIGINT")(lambda a, b: a + b)
minus = skip(name="minus", input_types=["BIGINT", "BIGINT"], result_type="BIGINT")(lambda a, b: a - b)
_numbers = itertools.count()
counts = skip(name="counts", mode="list", input_types=["VARCHAR"], result_type="BIGINT")(
    lambda texts: [next(_numbers) for _ in texts]
)
as_text = skip(name="as_text", input_types=["BIGINT"], result_type="VARCHAR")(lambda number: str(number))
length = skip(name="length", input_types=["VARCHAR"], result_type="BIGINT")(lambda text: len(text))
same_series = udf(name="same_series", mode="pandas", input_types=["BIGINT"], result_type="BIGINT")(
    lambda series: series
)
not_series = udf(name="not_series", mode="pandas", input_types=["BOOLEAN"], result_type="BOOLEAN")(
    lambda series: ~series
)
told = udf(name="told", input_types=["INT"], result_type="VARCHAR")(lambda value: f"{type(value).__name__} {value}")


@skip(input_types=["DECIMAL(10, 2)"], result_type="DECIMAL(10, 2)")
def never_called(_):
    raise AssertionError("called")


first_moment = skip(name="first_moment", input_types=["BIGINT"], result_type="timestamp[ns]")(
    lambda _: dt.datetime(1, 1, 1)
)


@skip(input_types=["timestamp[us, tz=America/New_York]"], result_type="DOUBLE")
def local_hour(moment):
    return moment.utcoffset().total_seconds() / 3600 + moment.hour / 100


small_decimal = skip(name="small_decimal", input_types=["BIGINT"], result_type="DECIMAL(20, 10)")(
    lambda n: -4.20076e-05 * n
)
same_whole = skip(name="same_whole", input_types=["DECIMAL(28, 0)"], result_type="DECIMAL(28, 0)")(
    lambda number: number
)
twice = skip(name="twice", input_types=["INT"], result_type="INT")(lambda number: number * 2)
twice_series = skip(name="twice_series", mode="pandas", input_types=["INT"], result_type="INT")(
    lambda series: series.astype("Int64") * 2
)
text_as_int = skip(name="text_as_int", input_types=["VARCHAR"], result_type="INT")(lambda text: text)
text_as_int_arrow = skip(name="text_as_int_arrow", mode="arrow", input_types=["VARCHAR"], result_type="INT")(
    lambda texts: texts
)
text_as_int_pandas = skip(name="text_as_int_pandas", mode="pandas", input_types=["VARCHAR"], result_type="INT")(
    lambda texts: texts
)
signs = skip(name="signs", input_types=["BIGINT"], result_type="BIGINT[]")(lambda n: array.array("b", [n, -n]))
same_tiny = udf(name="same_tiny", input_types=["TINYINT"], result_type="TINYINT")(lambda number: number)


@skip(input_types=["BIGINT"], result_type="STRUCT<a BIGINT, b VARCHAR, c BOOLEAN>")
def members(number):
    return {"a": number} if number == 1 else {"a": number, "b": None, "c": True}


@skip(input_types=["BIGINT"], result_type="STRUCT<a BIGINT>")
def unknown_member(number):
    return {"a": number, "zz": 1}


people = skip(name="people", input_types=["BIGINT"], result_type="STRUCT<name VARCHAR, age INT>")(
    lambda years: {"age": 40 + years, "name": "Ada"}
)
pairs = skip(name="pairs", input_types=["MAP(VARCHAR, BIGINT)"], result_type="BIGINT")(len)
pairs_numpy = skip(name="pairs_numpy", mode="numpy", input_types=["MAP(VARCHAR, BIGINT)"], result_type="BIGINT")(
    lambda maps: [len(one) for one in maps]
)
pairs_arrow = skip(name="pairs_arrow", mode="arrow", input_types=["MAP(VARCHAR, BIGINT)"], result_type="BIGINT")(
    lambda maps: [len(one) for one in maps.to_pylist()]
)
half = skip(name="half", input_types=["halffloat"], result_type="halffloat")(lambda x: x * 2)
same_interval = skip(name="same_interval", input_types=["INTERVAL"], result_type="INTERVAL")(lambda interval: interval)
same_span = skip(name="same_span", input_types=["duration[ns]"], result_type="duration[ns]")(lambda span: span)
same_time = skip(name="same_time", input_types=["time64[ns]"], result_type="time64[ns]")(lambda time: time)
torn = skip(name="torn", input_types=["BIGINT"], result_type="VARCHAR")(lambda n: "\ud801" if n else "whole")
with_length = skip(name="with_length", input_types=["VARCHAR"], result_type="VARCHAR")(
    lambda text: text + str(len(text))
)
adds_to_text = skip(name="adds_to_text", input_types=["VARCHAR"], result_type="VARCHAR")(lambda text: text + 1)
square_root = skip(name="square_root", input_types=["DOUBLE"], result_type="DOUBLE")(lambda x: math.sqrt(x))
