"""Names of types with parameters or parts in files of arrow-udf and databend-udf."""

from udfgate_worker import BUILTINS as __builtins__  # noqa: F401
from udfgate_worker.guesttypes import plain_guest, unknown_guest
from udfgate_worker.kinds import JSON, UDF_DECIMAL, VARIANT, VECTOR, Type, decimal_of, json_type, list_of, map_of, views
from udfgate_worker.typeparser import Flavour, Parser, from_pyarrow, parse

_ARROW_SIMPLE = {
    "NULL": ("null", ""),
    "DATE": ("date32", ""),
    "DATE32": ("date32", ""),
    "TIME": ("time64", "us"),
    "TIME64": ("time64", "us"),
    "TIMESTAMP": ("timestamp", "us"),
    "LARGE_STRING": ("large_utf8", ""),
    "LARGE_BINARY": ("large_binary", ""),
}
_DATABEND_SIMPLE = {
    "DATE": ("date32", ""),
    "DATETIME": ("timestamp", "us"),
    "TIMESTAMP": ("timestamp", "us"),
}


def _arrow(parser: Parser, word: str) -> "Type | str | None":
    """A type of arrow-udf: a decimal without precision and JSON are texts with an extension."""
    plain = _plain_words("arrow_udf", parser, word)
    if plain:
        return plain
    if word in _ARROW_SIMPLE:
        kind, unit = _ARROW_SIMPLE[word]
        if word in ("TIME", "TIMESTAMP") and [parser.peek(n).upper() for n in range(3)] == ["WITHOUT", "TIME", "ZONE"]:
            parser.at += 3
        return Type(kind, unit=unit)
    if word in ("JSON", "JSONB"):
        return json_type()
    if word == "INTERVAL":
        while parser.peek().isalpha():  # INTERVAL DAY TO SECOND and the like
            parser.at += 1
        return Type("month_day_nano_interval")
    if word in ("DECIMAL", "NUMERIC"):
        return _decimal(parser) if parser.peek() == "(" else Type("utf8", extension=UDF_DECIMAL)
    if word == "STRUCT":
        return None
    raise unknown_guest("arrow_udf", parser.text)


def _databend(parser: Parser, word: str) -> "Type | str | None":
    """A type of databend-udf. Parts of a type are NOT NULL unless they are called NULLABLE or NULL."""
    plain = _plain_words("databend_udf", parser, word)
    if plain:
        return plain
    if word in _DATABEND_SIMPLE:
        kind, unit = _DATABEND_SIMPLE[word]
        return Type(kind, unit=unit)
    if word in ("VARIANT", "JSON"):
        return Type("large_binary", extension=VARIANT)
    if word == "DECIMAL":
        if parser.peek() != "(":
            raise ValueError("wanted DECIMAL(precision, scale)")
        return _decimal(parser)
    if word not in ("ARRAY", "MAP", "TUPLE", "VECTOR", "NULLABLE"):
        raise unknown_guest("databend_udf", parser.text)
    closing = parser.open()
    if word == "NULLABLE":
        found = parser.type()
        parser.null = True
    elif word == "ARRAY":
        found = list_of(*parser.part())
    elif word == "VECTOR":
        item = ("item", "float32", True)
        found = Type("fixed_size_list", size=parser.number(), extension=VECTOR, children=(item,))
    elif word == "MAP":
        key, _ = parser.part()
        parser.close(",")
        found = map_of(key, *parser.part())
    else:
        found = _tuple(parser, closing)
    parser.close(closing)
    return found


def _tuple(parser: Parser, closing: str) -> Type:
    """Elements are named by their number from 1, as Databend has them."""
    children: list = []
    while parser.peek() != closing:
        if children:
            parser.close(",")
        children.append((str(len(children) + 1), *parser.part()))
    return Type("struct", children=tuple(children))


def _decimal(parser: Parser) -> Type:
    closing = parser.open()
    precision, scale = parser.number(), 0
    if parser.peek() == ",":
        parser.take()
        scale = parser.number()
    parser.close(closing)
    return decimal_of(precision, scale)


def _plain_words(source: str, parser: Parser, word: str) -> str:
    two = f"{word} {parser.peek().upper()}"
    if plain_guest(source, two):
        parser.at += 1
        return plain_guest(source, two)
    found = plain_guest(source, word)
    if found and parser.peek() == "(":
        raise unknown_guest(source, parser.text)
    return found


_VIEWS = {"arrow_udf": ("", "pairs"), "databend_udf": ("tuple", "")}
_FLAVOURS = {
    "arrow_udf": Flavour(lambda name: "", _arrow, *_VIEWS["arrow_udf"]),
    "databend_udf": Flavour(lambda name: "", _databend, *_VIEWS["databend_udf"], False),
}


def of_name(source: str, name: str) -> "str | Type":
    """The type of a name in a file of that package. Raises Unserved."""
    return parse(name, _FLAVOURS[source], unknown_guest(source, name))


def of_pyarrow(source: str, given: object) -> "str | Type":
    """The type of a pyarrow type in a file of that package. Raises Unserved."""
    found = from_pyarrow(given)
    return views(found, *_VIEWS[source]) if type(found) is Type else found


def of_class(name: str) -> "Type | None":
    """The type that a class of arrow_udf stands for."""
    extension = {"JsonType": JSON, "DecimalType": UDF_DECIMAL}.get(name)
    return Type("utf8", extension=extension) if extension else None
