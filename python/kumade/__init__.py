"""kumade from Python: how much bandwidth a path has left, and experiments on emulated networks.

The package carries the program `kumade`, which does the work. Results are the program's JSON documents, with types, and pandas
frames made of them (pandas is needed for frames alone).
"""

from ._lab import LabReport, experiments, lab
from ._measure import Direction, Estimate, Measurement, MeasurementFailed, measure
from ._program import KumadeError, find_program, program_version

__all__ = [
    "Direction",
    "Estimate",
    "KumadeError",
    "LabReport",
    "Measurement",
    "MeasurementFailed",
    "experiments",
    "find_program",
    "lab",
    "measure",
    "program_version",
]
