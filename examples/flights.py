"""Functions over the 336,776 flights that left New York City in 2013.

    udfgate serve examples/flights.py
    udfgate call speed_mph --args '[[1400, 227], [733, null]]'

A hint `T | None` (here as text, so that Python 3.9 reads it too) takes and gives nulls; a bare `T` never gives one.
"""

from __future__ import annotations

from udfgate import udf

AIRLINES = {
    "9E": "Endeavor Air",
    "AA": "American Airlines",
    "AS": "Alaska Airlines",
    "B6": "JetBlue Airways",
    "DL": "Delta Air Lines",
    "EV": "ExpressJet Airlines",
    "F9": "Frontier Airlines",
    "FL": "AirTran Airways",
    "HA": "Hawaiian Airlines",
    "MQ": "Envoy Air",
    "OO": "SkyWest Airlines",
    "UA": "United Air Lines",
    "US": "US Airways",
    "VX": "Virgin America",
    "WN": "Southwest Airlines",
    "YV": "Mesa Airlines",
}


@udf
def speed_mph(distance: int, air_time: int | None) -> float | None:
    """Mean speed over ground; null for a flight that was cancelled or diverted."""
    if not air_time:
        return None
    return distance / (air_time / 60)


@udf
def delay_class(dep_delay: int | None, arr_delay: int | None) -> str:
    """What a passenger would call the flight."""
    if dep_delay is None:
        return "cancelled"
    if arr_delay is None:
        return "diverted"
    if arr_delay <= 0:
        return "on time" if dep_delay <= 15 else "made up in the air"
    return "a little late" if arr_delay < 60 else "very late"


@udf
def flight_label(carrier: str, flight: int, origin: str, dest: str, tailnum: str | None) -> str:
    """One line for a departure board: text in, text out, with a null tail number."""
    label = f"{AIRLINES.get(carrier, carrier)} {flight} {origin}-{dest}"
    return label if tailnum is None else f"{label} ({tailnum.strip().upper()})"
