"""The names of scalar types that both files of arrow-udf take and give back, imported by them as a file of one's own is."""

SCALARS = (
    *("boolean", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64"),
    *("decimal", "date32", "time64", "timestamp", "interval", "string", "large_string", "binary", "large_binary"),
    "json",
)
