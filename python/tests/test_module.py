"""Tests of the module, with the program that it finds: that of the wheel, or what KUMADE_PROGRAM names.

PYTHONPATH=python KUMADE_PROGRAM=target/debug/kumade python3 -m unittest discover python/tests
"""

import importlib.util
import os
import pathlib
import re
import stat
import subprocess
import sys
import tempfile
import unittest
from typing import Any, Dict, List, Literal, Union, get_args, get_origin, get_type_hints
from unittest import mock

import kumade
from kumade._frames import is_record
from kumade._lab import DOCUMENT_TYPES
from kumade.documents import measure as measure_documents

HAS_PANDAS = importlib.util.find_spec("pandas") is not None
PYTHON = pathlib.Path(__file__).resolve().parent.parent
DEADLINE_SECONDS = 60


def mismatch(value: Any, hint: Any, place: str = "document") -> str:
    """Where a value is not of its type; empty if it is."""
    origin, arguments = get_origin(hint), get_args(hint)
    if hint is Any:
        return ""
    if origin is Union:
        return "" if any(not mismatch(value, one) for one in arguments) else f"{place}: {value!r} is not {hint}"
    if origin is Literal:
        return "" if value in arguments else f"{place}: {value!r} is not {hint}"
    if origin is list:
        found = (mismatch(one, arguments[0], f"{place}[{i}]") for i, one in enumerate(value)) if isinstance(value, list) else [place]
        return next(filter(None, found), "")
    if origin is dict:
        return next(filter(None, (mismatch(one, arguments[1], f"{place}.{key}") for key, one in value.items())), "")
    if is_record(hint):
        hints = get_type_hints(hint)
        if not isinstance(value, dict) or not set(hint.__required_keys__) <= set(value) <= set(hints):
            return f"{place}: {value!r} has not the fields of {hint}"
        return next(filter(None, (mismatch(one, hints[key], f"{place}.{key}") for key, one in value.items())), "")
    kinds = (int, float) if hint is float else (hint,)
    return "" if isinstance(value, kinds) else f"{place}: {value!r} is not {hint}"


class FakeProgram:
    """A program that notes its arguments, prints a text and ends with a status."""

    def __init__(self, test: unittest.TestCase, stdout: str = "", stderr: str = "", status: int = 0) -> None:
        directory = tempfile.TemporaryDirectory()
        test.addCleanup(directory.cleanup)
        root = pathlib.Path(directory.name)
        for name, text in (("stdout", stdout), ("stderr", stderr)):
            (root / name).write_text(text)
        program = root / "kumade"
        program.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {root}/arguments\ncat {root}/stdout; cat {root}/stderr >&2; exit {status}\n')
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        patch = mock.patch.dict(os.environ, KUMADE_PROGRAM=str(program))
        patch.start()
        test.addCleanup(patch.stop)
        self.root = root

    def arguments(self) -> List[str]:
        return (self.root / "arguments").read_text().splitlines()


class MeasureTest(unittest.TestCase):
    def serve(self) -> str:
        """The address of a server."""
        # Confined, it could not be measured to under an emulator; what it may is no matter here.
        server = subprocess.Popen(
            [kumade.find_program(), "serve", "--listen", "127.0.0.1:0"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self.addCleanup(server.wait)
        self.addCleanup(server.terminate)
        assert server.stdout is not None
        self.addCleanup(server.stdout.close)
        found = re.search(r"listening on (\S+)", server.stdout.readline())
        assert found is not None
        return found.group(1)

    def test_a_measurement_has_the_types_that_it_says(self) -> None:
        found = kumade.measure(self.serve(), transport="udp", budget_bytes=2_000_000, deadline_seconds=DEADLINE_SECONDS)
        self.assertEqual(mismatch(found.document, measure_documents.Document), "")
        for direction in (found.up, found.down):
            assert direction is not None
            # How fast loopback is, is not asked: a value, a bound, or a reason.
            known = direction.available or direction.at_least or direction.at_most or direction.reason
            self.assertTrue(known, direction)
            if direction.available:
                self.assertLessEqual(direction.available.low, direction.available.high)

    def test_one_direction_is_one_row(self) -> None:
        found = kumade.measure(self.serve(), direction="down", transport="udp", capacity=False)
        self.assertIsNone(found.up)
        assert found.down is not None
        self.assertIsNone(found.down.capacity)
        if HAS_PANDAS:
            frame = found.frame()
            self.assertEqual(list(frame["direction"]), ["down"])
            self.assertIn("available_bits_per_second.value", frame.columns)
            self.assertIn("capacity.shaper.rate_bits_per_second.value", frame.columns)

    def test_a_measurement_that_fails_says_why(self) -> None:
        with self.assertRaises(kumade.MeasurementFailed) as caught:
            kumade.measure("127.0.0.1:1")
        self.assertEqual(caught.exception.kind, "connect")
        self.assertIn("Connection refused", str(caught.exception))
        with self.assertRaisesRegex(kumade.KumadeError, "host.invalid"):
            kumade.measure("host.invalid")

    def test_arguments_are_the_options_of_the_program(self) -> None:
        fake = FakeProgram(self, stdout='{"up": null, "down": null, "error": null}', status=1)
        kumade.measure("-host", budget_seconds=0.5, load_seconds=4, key="file", options=["--mark", "7"])
        self.assertEqual(
            fake.arguments(),
            "measure --json --direction both --transport auto --method primed --budget-time 0.500000s --key file --load=4.000000s "
            "--mark 7 -- -host".split(),
        )

    def test_wrong_options_are_an_error(self) -> None:
        with self.assertRaisesRegex(kumade.KumadeError, "--no-such-option"):
            kumade.measure("127.0.0.1:1", options=["--no-such-option"])


class LabTest(unittest.TestCase):
    def check(self, name: str, **arguments: Any) -> kumade.LabReport:
        report = kumade.lab(name, virtual=True, **arguments)
        self.assertEqual(mismatch(report.document, DOCUMENT_TYPES[report.document["schema"]]), "")
        self.assertIn("rows", report.lists())
        return report

    def test_accuracy(self) -> None:
        report = self.check("rake-firewall")
        document = report.document
        assert document["schema"] == "kumade.lab/1"
        # UDP is rejected there, and many connections measure rightly.
        for row in document["rows"]:
            found = row["available_bits_per_second"]
            self.assertEqual(found is None, row["transport"] == "udp", row)
            if found is not None:
                self.assertAlmostEqual(found["value"] / row["truth_bits_per_second"], 1, delta=0.05)
        if HAS_PANDAS:
            frame = report.frame()
            self.assertEqual(len(frame), len(document["rows"]))
            self.assertEqual(frame["available_bits_per_second.value"].notna().sum(), 3)

    def test_fairness(self) -> None:
        report = self.check("fair-mix", runs=1, options=["--row", "0", "--duration", "5s"])
        self.assertIn("summary.points", report.lists())
        if HAS_PANDAS:
            self.assertIn("fair-share", set(report.frame("summary.points")["discipline"]))
            with self.assertRaisesRegex(kumade.KumadeError, "no list nothing, but rows, "):
                report.frame("nothing")

    def test_several_paths_and_sessions(self) -> None:
        self.check("multipath-unequal", runs=1, options=["--row", "1", "--duration", "1s"])
        self.check("nat-session", runs=1, options=["--row", "1"])
        self.check("path-atlas", runs=1, options=["--kind", "fifo"])
        self.check("fair-latency", runs=1, options=["--row", "1", "--duration", "5s"])

    def test_pages_are_kept_where_asked(self) -> None:
        with tempfile.TemporaryDirectory() as directory:
            self.check("rake-firewall", runs=1, out=directory)
            self.assertTrue((pathlib.Path(directory) / "report.html").exists())

    def test_an_unknown_experiment_is_an_error(self) -> None:
        self.assertIn("fair-mix", kumade.experiments())
        with self.assertRaisesRegex(kumade.KumadeError, "no-such-experiment"):
            kumade.lab("no-such-experiment")

    def test_a_document_of_a_later_release_is_refused(self) -> None:
        FakeProgram(self, stdout='{"schema": "kumade.lab/9"}')
        with self.assertRaisesRegex(kumade.KumadeError, "does not know kumade.lab/9: update it"):
            kumade.lab("rake-firewall")


class ProgramTest(unittest.TestCase):
    def test_python_runs_the_program(self) -> None:
        done = subprocess.run([sys.executable, "-m", "kumade", "--version"], capture_output=True, text=True)
        self.assertEqual(done.stdout.split()[-1], kumade.program_version())

    def test_a_program_that_is_missing_is_named(self) -> None:
        with mock.patch.dict(os.environ, KUMADE_PROGRAM="/nowhere/kumade"):
            with self.assertRaisesRegex(kumade.KumadeError, "cannot run /nowhere/kumade: No such file"):
                kumade.program_version()
        environment: Dict[str, str] = {}
        with mock.patch.dict(os.environ, environment, clear=True), mock.patch("os.access", return_value=False):
            with self.assertRaisesRegex(kumade.KumadeError, "install the wheel again"):
                kumade.find_program()

    def test_other_platforms_are_told_where_it_runs(self) -> None:
        for system, machine, name in (("darwin", "arm64", "Darwin"), ("linux", "riscv64", "Linux")):
            with mock.patch.dict(os.environ, {}, clear=True), mock.patch("sys.platform", system):
                with mock.patch("platform.machine", return_value=machine), mock.patch("platform.system", return_value=name):
                    with self.assertRaisesRegex(kumade.KumadeError, f"runs on Linux on x86_64 and aarch64, .* {name} on {machine}"):
                        kumade.measure("127.0.0.1:1")


@unittest.skipUnless((PYTHON / "generate_documents.py").exists(), "this is not the repository")
class SourceTest(unittest.TestCase):
    def test_types_are_those_of_the_schemas(self) -> None:
        subprocess.run([sys.executable, PYTHON / "generate_documents.py", "--check"], check=True)

    def test_the_version_is_that_of_the_program(self) -> None:
        def version(path: pathlib.Path) -> str:
            found = re.search(r'^version = "(.*)"$', path.read_text(), re.MULTILINE)
            assert found is not None
            return found.group(1)

        self.assertEqual(version(PYTHON / "pyproject.toml"), version(PYTHON.parent / "Cargo.toml"))
        self.assertEqual(version(PYTHON / "pyproject.toml"), kumade.program_version())

    def test_the_source_package_says_where_it_builds(self) -> None:
        script = "import sys; sys.path.insert(0, '.'); {}import build_wheel; build_wheel.build_wheel('/nowhere')"
        for settings, words in (
            ("sys.platform = 'darwin'; ", "kumade runs on Linux on x86_64 and aarch64, and this is"),
            ("", "source package of kumade, which has no program in it"),
            ("import os; os.environ['KUMADE_PROGRAM'] = '/bin/sh'; ", "the program is not static"),
            (f"import os; os.environ['KUMADE_PROGRAM'] = {__file__!r}; ", "no program for Linux"),
        ):
            environment = {key: value for key, value in os.environ.items() if key != "KUMADE_PROGRAM"}
            done = subprocess.run(
                [sys.executable, "-c", script.format(settings)], cwd=PYTHON, env=environment, capture_output=True, text=True
            )
            self.assertEqual(done.returncode, 1)
            self.assertIn(words, done.stderr)


if __name__ == "__main__":
    unittest.main()
