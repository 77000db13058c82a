"""The program that the package carries."""

import os
import pathlib
import platform
import subprocess
import sys
import sysconfig
from typing import List, Tuple

MACHINES = ("x86_64", "aarch64")


class KumadeError(Exception):
    """The program could not be run, or failed; the text says why and what to try."""


def find_program() -> str:
    """The path of the program: what the variable `KUMADE_PROGRAM` says, otherwise that of this package.

    Raises `KumadeError` where the package has none.
    """
    chosen = os.environ.get("KUMADE_PROGRAM")
    if chosen:
        return chosen
    check_platform()
    # A user's own, those of an environment, and what `pip install --target` makes.
    places = [sysconfig.get_path("scripts"), sysconfig.get_path("scripts", "posix_user")]
    places.append(str(pathlib.Path(__file__).parent.parent / "bin"))
    for place in places:
        program = os.path.join(place, "kumade")
        if os.access(program, os.X_OK):
            return program
    raise KumadeError(
        f"the program is not in {', '.join(places)}: install the wheel again (pip install --force-reinstall kumade), or set "
        "KUMADE_PROGRAM to its path"
    )


def check_platform() -> None:
    """Raises `KumadeError` where the program does not run."""
    system, machine = platform.system(), platform.machine()
    if sys.platform != "linux" or machine not in MACHINES:
        raise KumadeError(f"kumade runs on Linux on {' and '.join(MACHINES)}, and this is {system} on {machine}")


def run_program(arguments: List[str], allowed: Tuple[int, ...] = (0,)) -> str:
    """What the program prints. Exit statuses other than those allowed raise `KumadeError` with its message."""
    program = find_program()
    try:
        done = subprocess.run([program, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    except OSError as error:
        raise KumadeError(f"cannot run {program}: {error.strerror}") from error
    if done.returncode not in allowed:
        reason = done.stderr.strip() or f"it ended with status {done.returncode}"
        raise KumadeError(reason[len("kumade: ") :] if reason.startswith("kumade: ") else reason)
    return done.stdout


def program_version() -> str:
    """The version of the program, such as `0.1.0`."""
    return run_program(["--version"]).split()[-1]
