#!/usr/bin/env python3
"""Makes the virtual environments of the comparison: pinned packages, one base interpreter for all of them.

    setup.py [arrow] [databend] [ref]     makes them (default: all three)
    setup.py --base                       prints the base interpreter
    setup.py --of NAME                    prints the interpreter of an environment

They lie in .venv/peers-NAME of the checkout, or in $PEERS_HOME/NAME if that variable is set. An environment that
already has the pinned versions is left alone. The base interpreter is $PEERS_PYTHON, else /usr/bin/python3, else the
first python3 on PATH; udfgate's worker runs on it too, because two builds of one Python version may differ by a tenth
in speed.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]

# One environment per rival, since each pins pyarrow for itself. ref has the client and the bare Flight server.
ENVIRONMENTS: dict[str, dict[str, str]] = {
    "arrow": {"arrow-udf": "0.3.2", "pyarrow": "25.0.1"},
    "databend": {"databend-udf": "0.2.20", "pyarrow": "26.0.1"},
    "ref": {"pyarrow": "26.0.1", "numpy": "2.4.6"},
}

# Run by the environment's own interpreter: what it has of the packages named in argv.
INSTALLED = """
import json, sys
from importlib import metadata
found = {}
for name in sys.argv[1:]:
    try:
        found[name] = metadata.version(name)
    except metadata.PackageNotFoundError:
        pass
print(json.dumps(found))
"""


def base_python() -> str:
    """The interpreter that everything on the server side runs on."""
    named = os.environ.get("PEERS_PYTHON")
    if named:
        found = shutil.which(named)
        if not found:
            raise SystemExit(f"PEERS_PYTHON={named}: no such program")
        return found
    if os.access("/usr/bin/python3", os.X_OK):
        return "/usr/bin/python3"
    return shutil.which("python3") or sys.executable


def python_of(name: str) -> str:
    """The interpreter of an environment, made or not."""
    home = os.environ.get("PEERS_HOME")
    folder = Path(home, name) if home else CHECKOUT / ".venv" / f"peers-{name}"
    return str(folder / "bin" / "python")


def installed(name: str) -> dict[str, str]:
    """The versions that an environment has of the packages pinned for it; empty if there is no such environment."""
    python = python_of(name)
    if not os.access(python, os.X_OK):
        return {}
    answer = subprocess.run([python, "-c", INSTALLED, *ENVIRONMENTS[name]], capture_output=True, text=True, check=False)
    return dict(json.loads(answer.stdout)) if answer.returncode == 0 else {}


def build(python: str) -> str:
    """Which build of Python an interpreter is: version, compiler and the base program behind a virtual environment."""
    ask = "import os, sys; print(os.path.realpath(getattr(sys, '_base_executable', sys.executable)), sys.version)"
    return " ".join(subprocess.run([python, "-c", ask], capture_output=True, text=True, check=True).stdout.split())


def make(name: str) -> None:
    pins = ENVIRONMENTS[name]
    if installed(name) == pins:
        print(f"{name}: ready ({', '.join(f'{p} {v}' for p, v in pins.items())})")
        return
    folder = Path(python_of(name)).parents[1]
    subprocess.run([base_python(), "-m", "venv", "--clear", str(folder)], check=True)
    subprocess.run(
        [
            python_of(name),
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "--prefer-binary",
            *[f"{p}=={v}" for p, v in pins.items()],
        ],
        check=True,
    )
    if installed(name) != pins:
        raise SystemExit(f"{name}: wanted {pins}, got {installed(name)}")
    print(f"{name}: made on {base_python()}")


def main() -> None:
    parser = argparse.ArgumentParser(description="Makes the virtual environments of the comparison.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(ENVIRONMENTS)}; default: all")
    parser.add_argument("--base", action="store_true", help="print the base interpreter")
    parser.add_argument("--of", choices=list(ENVIRONMENTS), help="print the interpreter of an environment")
    args = parser.parse_args()
    if args.base:
        print(base_python())
        return
    if args.of:
        print(python_of(args.of))
        return
    for name in args.names or ENVIRONMENTS:
        if name not in ENVIRONMENTS:
            parser.error(f"no environment {name!r}; there are {', '.join(ENVIRONMENTS)}")
        make(name)


if __name__ == "__main__":
    main()
