"""`kumade measure`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Dict, List, Literal, Mapping, Optional, Sequence, Union

from ._frames import column_names, flatten, make_frame
from ._program import KumadeError, run_program
from .documents import measure as documents

if TYPE_CHECKING:
    import pandas

# The exit status of a measurement that has no value.
NO_VALUE_STATUS = 1


class MeasurementFailed(KumadeError):
    """The measurement failed as a whole: `kind` is for programs (`connect`, `refused` …), `document` is what was printed."""

    def __init__(self, document: documents.Document, error: documents.ErrorReport) -> None:
        super().__init__(error["message"] if error["hint"] is None else f"{error['message']}; {error['hint']}")
        self.document = document
        self.kind = error["kind"]


@dataclass(frozen=True)
class Estimate:
    """A value with its interval. `confidence` is from 0 to 1: 1 means a hard bound, 0 that the method states none."""

    value: float
    low: float
    high: float
    confidence: float


@dataclass(frozen=True)
class Direction:
    """What was found in one direction. Rates are in bits per second of IP packets.

    Where `available` is none, `at_least` or `at_most` may bound it, and `reason` says why there is no value.
    """

    available: Optional[Estimate]
    at_least: Optional[float]
    at_most: Optional[float]
    capacity: Optional[Estimate]
    reason: Optional[str]
    document: documents.DirectionReport


@dataclass(frozen=True)
class Measurement:
    """One measurement. `document` has all of it (`kumade.measure/1`)."""

    document: documents.Document

    @property
    def up(self) -> Optional[Direction]:
        """From this host to the server; none if it was not asked for."""
        return direction_from(self.document["up"])

    @property
    def down(self) -> Optional[Direction]:
        """From the server to this host; none if it was not asked for."""
        return direction_from(self.document["down"])

    def frame(self) -> pandas.DataFrame:
        """A row for each direction that was asked for. Raises `KumadeError` where pandas is missing."""
        head = {"started": self.document["started"], "peer": self.document["peer"]}
        directions: Dict[str, Any] = {"up": self.document["up"], "down": self.document["down"]}
        rows = [
            {**head, "direction": name, **flatten(found, documents.DirectionReport)}
            for name, found in directions.items()
            if found is not None
        ]
        return make_frame(rows, [*head, "direction", *column_names(documents.DirectionReport)])


def direction_from(report: Optional[documents.DirectionReport]) -> Optional[Direction]:
    if report is None:
        return None
    capacity = report["capacity"]
    return Direction(
        available=estimate_from(report["available_bits_per_second"]),
        at_least=report["at_least_bits_per_second"],
        at_most=report["at_most_bits_per_second"],
        capacity=estimate_from(capacity["bottleneck_bits_per_second"]) if capacity else None,
        reason=report["reason"],
        document=report,
    )


def estimate_from(found: Optional[Mapping[str, Any]]) -> Optional[Estimate]:
    return None if found is None else Estimate(found["value"], found["low"], found["high"], found["confidence"])


def measure(
    host: str,
    *,
    direction: Literal["up", "down", "both"] = "both",
    transport: Literal["auto", "udp", "rake", "single"] = "auto",
    method: str = "primed",
    budget_bytes: Optional[int] = None,
    budget_seconds: Optional[float] = None,
    deadline_seconds: Optional[float] = None,
    load_seconds: Optional[float] = None,
    capacity: bool = True,
    key: Optional[str] = None,
    source: Optional[str] = None,
    interface: Optional[str] = None,
    options: Sequence[str] = (),
) -> Measurement:
    """Measures the path to a host that runs `kumade serve`; `host` may have a port.

    The arguments are the options of `kumade measure`, which `options` may extend (`["--mark", "7"]`). Raises
    `MeasurementFailed` where there was no measurement. One that found no value is a result, with its reason.
    """
    settings: Dict[str, Optional[str]] = {
        "--direction": direction,
        "--transport": transport,
        "--method": method,
        "--budget-bytes": None if budget_bytes is None else str(budget_bytes),
        "--budget-time": seconds(budget_seconds),
        "--deadline": seconds(deadline_seconds),
        "--key": key,
        "--source": source,
        "--interface": interface,
    }
    arguments = ["measure", "--json", *given(settings), *([] if capacity else ["--no-capacity"])]
    arguments += [] if load_seconds is None else [f"--load={seconds(load_seconds)}"]
    printed = run_program([*arguments, *options, "--", host], allowed=(0, NO_VALUE_STATUS))
    document: documents.Document = json.loads(printed)
    if document["error"] is not None:
        raise MeasurementFailed(document, document["error"])
    return Measurement(document)


def given(settings: Mapping[str, Optional[str]]) -> List[str]:
    return [word for name, value in settings.items() if value is not None for word in (name, value)]


def seconds(time: Union[None, int, float]) -> Optional[str]:
    return None if time is None else f"{time:f}s"
