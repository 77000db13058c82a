"""`kumade lab`."""

from __future__ import annotations

import json
import tempfile
from typing import Dict, List, Optional, Sequence, Union

from ._frames import Frames
from ._program import KumadeError, run_program
from .documents import (
    lab_accuracy,
    lab_contention,
    lab_fairness,
    lab_fast_links,
    lab_multipath,
    lab_nat_session,
    lab_path_atlas,
)

LabDocument = Union[
    lab_accuracy.Document,
    lab_contention.Document,
    lab_fairness.Document,
    lab_fast_links.Document,
    lab_multipath.Document,
    lab_nat_session.Document,
    lab_path_atlas.Document,
]

DOCUMENT_TYPES: Dict[str, type] = {
    "kumade.lab/1": lab_accuracy.Document,
    "kumade.lab.contention/1": lab_contention.Document,
    "kumade.lab.fairness/1": lab_fairness.Document,
    "kumade.lab.fast-links/1": lab_fast_links.Document,
    "kumade.lab.multipath/1": lab_multipath.Document,
    "kumade.lab.nat-session/1": lab_nat_session.Document,
    "kumade.lab.path-atlas/1": lab_path_atlas.Document,
}


class LabReport(Frames):
    """The report of an experiment. `document` is all of it; its field `schema` tells which of the types it has."""

    document: LabDocument

    def __init__(self, document: LabDocument) -> None:
        known = DOCUMENT_TYPES.get(document["schema"])
        if known is None:
            raise KumadeError(f"this package does not know {document['schema']}: update it (pip install --upgrade kumade)")
        self.document = document
        self._document_type = known

    def __repr__(self) -> str:
        return f"LabReport({self.document['experiment']}, {len(self.document['rows'])} rows)"


def lab(
    experiment: str,
    *,
    virtual: bool = False,
    runs: Optional[int] = None,
    out: Optional[str] = None,
    options: Sequence[str] = (),
) -> LabReport:
    """Runs an experiment: one of `experiments()`, or a scenario file.

    With `virtual` it runs in virtual time, which takes no privileges, and gives the same figures again. `out` is a directory for
    the report's pages; without it they are not kept. `options` are further ones of `kumade lab run` (`["--rate", "5mbit"]`).
    Raises `KumadeError` where it cannot be run.
    """
    arguments = ["lab", "run", experiment, "--json", *(["--virtual"] if virtual else []), *options]
    arguments += [] if runs is None else ["--runs", str(runs)]
    with tempfile.TemporaryDirectory() as scratch:
        return LabReport(json.loads(run_program([*arguments, "--out", out or scratch])))


def experiments() -> List[str]:
    """The names of the built-in experiments. `kumade lab list` has their titles, too."""
    return [line.split(maxsplit=1)[0] for line in run_program(["lab", "list"]).splitlines() if line.strip()]
