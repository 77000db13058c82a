"""Makes the wheels of the static programs, without other packages: python3 build_wheel.py PROGRAM... OUTPUT.

It is also the build backend (PEP 517) of the source package, for those whom no wheel fits: on Linux it packs the program that
KUMADE_PROGRAM names, and elsewhere it says where kumade runs. The same program gives the same bytes.
"""

import base64
import gzip
import hashlib
import io
import os
import pathlib
import platform
import re
import stat
import sys
import tarfile
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
# A static program runs with each C library. Linux 6.1 is what it is tested on: no tag says so.
PLATFORM_TAGS = "manylinux_2_17_{0}.manylinux2014_{0}.musllinux_1_1_{0}"
# The field e_machine of ELF.
MACHINES = {62: "x86_64", 183: "aarch64"}
# That of a zip file begins here.
ZIP_EPOCH = (1980, 1, 1, 0, 0, 0)


def project(name):
    """A text of pyproject.toml, which Python can read only since 3.11."""
    return re.search(rf'^{name} = "(.*)"$', (HERE / "pyproject.toml").read_text(), re.MULTILINE).group(1)


def texts(name):
    found = re.search(rf"^{name} = \[(.*?)\]$", (HERE / "pyproject.toml").read_text(), re.MULTILINE | re.DOTALL)
    return re.findall(r'"([^"]*)"', found.group(1))


def license_text():
    """In the source package it is here."""
    own = HERE / "LICENSE"
    return (own if own.exists() else HERE.parent / "LICENSE").read_bytes()


def metadata():
    lines = [
        "Metadata-Version: 2.4",
        f"Name: {project('name')}",
        f"Version: {project('version')}",
        f"Summary: {project('description')}",
        f"License-Expression: {project('license')}",
        "License-File: LICENSE",
        f"Requires-Python: {project('requires-python')}",
        f"Keywords: {','.join(texts('keywords'))}",
        *(f"Classifier: {text}" for text in texts("classifiers")),
        "Provides-Extra: pandas",
        *(f'Requires-Dist: {text}; extra == "pandas"' for text in texts("pandas")),
        "Description-Content-Type: text/markdown",
    ]
    return ("\n".join(lines) + "\n\n" + (HERE / "README.md").read_text()).encode()


def machine_of(program):
    """The machine of a static program of Linux."""
    head = program[:64]
    if head[:4] != b"\x7fELF" or int.from_bytes(head[18:20], "little") not in MACHINES:
        raise SystemExit("this is no program for Linux on x86_64 or aarch64")
    offset, size, count = (int.from_bytes(head[a:b], "little") for a, b in ((32, 40), (54, 56), (56, 58)))
    kinds = [int.from_bytes(program[place : place + 4], "little") for place in range(offset, offset + size * count, size)]
    # PT_INTERP: a dynamic linker, and with it the C library of a distribution.
    if 3 in kinds:
        raise SystemExit("the program is not static: packaging/build makes such")
    return MACHINES[int.from_bytes(head[18:20], "little")]


def sources():
    return sorted(path for path in (HERE / "kumade").rglob("*") if path.suffix == ".py" or path.name == "py.typed")


def write_wheel(program_path, directory):
    program = pathlib.Path(program_path).read_bytes()
    name = f"{project('name')}-{project('version')}"
    tags = PLATFORM_TAGS.format(machine_of(program))
    info = f"{name}.dist-info"
    tag_lines = "".join(f"Tag: py3-none-{tag}\n" for tag in tags.split("."))
    contents = {str(path.relative_to(HERE)): path.read_bytes() for path in sources()}
    # Installers put it into the directory of programs, and make it one.
    contents[f"{name}.data/scripts/kumade"] = program
    contents[f"{info}/METADATA"] = metadata()
    contents[f"{info}/WHEEL"] = f"Wheel-Version: 1.0\nGenerator: build_wheel\nRoot-Is-Purelib: false\n{tag_lines}".encode()
    contents[f"{info}/licenses/LICENSE"] = license_text()
    record = "".join(f"{path},sha256={digest(content)},{len(content)}\n" for path, content in contents.items())
    contents[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()

    wheel = pathlib.Path(directory) / f"{name}-py3-none-{tags}.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for path, content in contents.items():
            entry = zipfile.ZipInfo(path, ZIP_EPOCH)
            entry.external_attr = (stat.S_IFREG | (0o755 if "/scripts/" in path else 0o644)) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, content)
    return wheel.name


def digest(content):
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")


def write_source_package(directory):
    name = f"{project('name')}-{project('version')}"
    own = [HERE / "pyproject.toml", HERE / "build_wheel.py", HERE / "README.md", *sources()]
    contents = {str(path.relative_to(HERE)): path.read_bytes() for path in own}
    contents["LICENSE"] = license_text()
    contents["PKG-INFO"] = metadata()
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path, content in sorted(contents.items()):
            entry = tarfile.TarInfo(f"{name}/{path}")
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    path = pathlib.Path(directory) / f"{name}.tar.gz"
    with path.open("wb") as file, gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) as archive:
        archive.write(packed.getvalue())
    return path.name


# The backend's hooks.


def get_requires_for_build_wheel(config_settings=None):
    return []


def get_requires_for_build_sdist(config_settings=None):
    return []


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    if sys.platform != "linux" or platform.machine() not in MACHINES.values():
        raise SystemExit(f"kumade runs on Linux on x86_64 and aarch64, and this is {platform.system()} on {platform.machine()}")
    program = os.environ.get("KUMADE_PROGRAM")
    if not program:
        raise SystemExit(
            "this is the source package of kumade, which has no program in it: update pip, which then takes a wheel "
            "(pip install --upgrade pip), or set KUMADE_PROGRAM to a static program (packaging/build makes one)"
        )
    return write_wheel(program, wheel_directory)


def build_sdist(sdist_directory, config_settings=None):
    return write_source_package(sdist_directory)


if __name__ == "__main__":
    *programs, output = sys.argv[1:]
    for each in programs:
        print(write_wheel(each, output))
    print(write_source_package(output))
