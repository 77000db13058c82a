"""Tests of install.sh against HTTP servers on loopback: python3 -m unittest packaging/test_install.py.

The release is made here, with a shell script as its program; with KUMADE_RELEASE, a directory of packaging/release, it is that one.
"""

import functools
import hashlib
import http.server
import os
import pathlib
import shutil
import subprocess
import tarfile
import tempfile
import threading
import unittest

SCRIPT = pathlib.Path(__file__).with_name("install.sh")
DEADLINE_SECONDS = 60


def make_release(directory, program="echo kumade 0.0.1"):
    """Archives of both architectures with their sums, as packaging/release makes them."""
    sums = ""
    for machine in ("x86_64", "aarch64"):
        name = f"kumade-0.0.1-{machine}-linux"
        root = directory / name
        files = {
            "kumade": f"#!/bin/sh\n{program}\n",
            "man/kumade.1.gz": "",
            "man/kumade-measure.1.gz": "",
            "completions/kumade.bash": "",
            "completions/kumade.zsh": "",
            "completions/kumade.fish": "",
        }
        for path, text in files.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text)
        (root / "kumade").chmod(0o755)
        archive = directory / f"{name}.tar.gz"
        with tarfile.open(archive, "w:gz") as tar:
            tar.add(root, name)
        shutil.rmtree(root)
        sums += f"{hashlib.sha256(archive.read_bytes()).hexdigest()}  {archive.name}\n"
    (directory / "SHA256SUMS").write_text(sums)


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


class Interrupted(Quiet):
    """Closes the connection in the middle of each archive."""

    def copyfile(self, source, outputfile):
        content = source.read()
        outputfile.write(content[: len(content) // 2] if self.path.endswith(".gz") else content)


class InterruptedWithoutLength(Interrupted):
    """So that the client cannot tell."""

    def send_header(self, keyword, value):
        if keyword != "Content-Length":
            super().send_header(keyword, value)


class InstallTest(unittest.TestCase):
    def setUp(self):
        self.root = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.release = self.root / "release"
        given = os.environ.get("KUMADE_RELEASE")
        if given:
            self.release.mkdir()
            for path in pathlib.Path(given).iterdir():
                if path.name == "SHA256SUMS" or path.name.endswith(".tar.gz"):
                    shutil.copy(path, self.release)
        else:
            self.release.mkdir()
            make_release(self.release)
        self.prefix = self.root / "prefix"
        self.temporary = self.root / "temporary"
        self.temporary.mkdir()

    def serve(self, handler=Quiet):
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(handler, directory=self.release))
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{server.server_port}"

    def run_script(self, *arguments, path="", **environment):
        command = ["sh", str(SCRIPT), *arguments]
        environment = {**os.environ, "PATH": path + os.environ["PATH"], "TMPDIR": str(self.temporary), **environment}
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=DEADLINE_SECONDS)

    def install(self, url, **rest):
        return self.run_script("--url", url, "--prefix", str(self.prefix), **rest)

    def fake_program(self, name, text):
        """A directory for PATH with a program of that name."""
        directory = self.root / "fakes"
        directory.mkdir(exist_ok=True)
        (directory / name).write_text(f"#!/bin/sh\n{text}\n")
        (directory / name).chmod(0o755)
        return f"{directory}:"

    def files(self):
        return sorted(str(path.relative_to(self.prefix)) for path in self.prefix.rglob("*") if path.is_file())

    def assert_refused(self, result, *words):
        self.assertNotEqual(result.returncode, 0, result.stdout)
        for word in words:
            self.assertIn(word, result.stderr)
        self.assertEqual(self.files() if self.prefix.exists() else [], [])
        self.assertEqual(list(self.temporary.iterdir()), [])

    def test_it_installs_says_so_and_removes_all_of_it(self):
        url = self.serve()
        result = self.install(url)
        self.assertEqual(result.returncode, 0, result.stderr)
        program = self.prefix / "bin/kumade"
        version = subprocess.run([program, "--version"], capture_output=True, text=True).stdout.strip()
        self.assertIn(f"{version} is installed: {program}", result.stdout)
        self.assertIn("not in your PATH", result.stdout)
        self.assertIn("share/man/man1/kumade-measure.1.gz", self.files())
        self.assertIn("share/bash-completion/completions/kumade", self.files())
        self.assertEqual(list(self.temporary.iterdir()), [])

        # Over a program that runs, and beside what is not ours.
        other = self.prefix / "share/man/man1/other.1.gz"
        other.write_text("")
        before = self.files()
        self.assertEqual(self.install(url).returncode, 0)
        self.assertEqual(self.files(), before)
        result = self.run_script("--uninstall", "--prefix", str(self.prefix))
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("removed", result.stdout)
        self.assertEqual(self.files(), ["share/man/man1/other.1.gz"])
        self.assertIn("there is no", self.run_script("--uninstall", "--prefix", str(self.prefix)).stderr)

    def test_it_installs_with_wget_where_curl_is_missing(self):
        if not shutil.which("wget"):
            self.skipTest("wget is missing")
        tools = "sh wget uname mktemp rm grep wc sha256sum tar gzip cp chmod mv mkdir dirname id".split()
        directory = self.root / "tools"
        directory.mkdir()
        for tool in tools:
            (directory / tool).symlink_to(shutil.which(tool))
        result = self.install(self.serve(), PATH=str(directory))
        self.assertEqual(result.returncode, 0, result.stderr)
        (directory / "wget").unlink()
        self.assertIn("neither curl nor wget", self.install("http://127.0.0.1:1", PATH=str(directory)).stderr)

    def test_a_wrong_sum_is_refused(self):
        for archive in self.release.glob("*.tar.gz"):
            archive.write_bytes(archive.read_bytes() + b"x")
        self.assert_refused(self.install(self.serve()), "not what SHA256SUMS says", "nothing was changed")

    def test_a_download_that_ends_early_is_refused(self):
        self.assert_refused(self.install(self.serve(Interrupted)), "cannot download", "nothing was changed")
        self.assert_refused(self.install(self.serve(InterruptedWithoutLength)), "cut short or changed")

    def test_a_script_that_ends_early_does_nothing(self):
        text = SCRIPT.read_text()
        url = self.serve()
        for part in range(1, 20):
            short = self.root / "short.sh"
            short.write_text(text[: len(text) * part // 20])
            subprocess.run(["sh", short, "--url", url, "--prefix", self.prefix], capture_output=True, timeout=DEADLINE_SECONDS)
            self.assertFalse(self.prefix.exists(), part)

    def test_a_server_without_the_release_is_named(self):
        (self.release / "SHA256SUMS").unlink()
        self.assert_refused(self.install(self.serve()), "cannot download http://127.0.0.1:", "check the address")
        self.assert_refused(self.install("http://127.0.0.1:1"), "cannot download http://127.0.0.1:1/SHA256SUMS")

    def test_unknown_machines_are_refused(self):
        url = self.serve()
        path = self.fake_program("uname", '[ "$1" = -s ] && echo Linux || echo riscv64')
        self.assert_refused(self.install(url, path=path), "no program for riscv64", "build it from source")
        path = self.fake_program("uname", '[ "$1" = -s ] && echo Darwin || echo arm64')
        self.assert_refused(self.install(url, path=path), "runs on Linux only", "Darwin")

    def test_each_machine_gets_its_own_archive(self):
        for name, machine in (("amd64", "x86_64"), ("arm64", "aarch64")):
            for archive in self.release.glob("*.tar.gz"):
                archive.write_bytes(b"x")
            path = self.fake_program("uname", f'[ "$1" = -s ] && echo Linux || echo {name}')
            self.assert_refused(self.install(self.serve(), path=path), f"-{machine}-linux.tar.gz is not what")

    def test_a_program_that_does_not_run_is_not_installed(self):
        for archive in self.release.glob("*.tar.gz"):
            archive.unlink()
        make_release(self.release, "exit 1")
        self.assert_refused(self.install(self.serve()), "does not run here")

    def test_wrong_usage_is_answered(self):
        self.assertIn("usage:", self.run_script("--unknown").stderr)
        self.assertIn("--url URL", self.run_script("--prefix", str(self.prefix)).stderr)

    def test_a_place_that_cannot_be_written_is_named(self):
        self.prefix.mkdir()
        (self.prefix / "bin").write_text("")
        result = self.install(self.serve())
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("--prefix", result.stderr)


if __name__ == "__main__":
    unittest.main()
