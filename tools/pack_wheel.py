#!/usr/bin/env python3
"""Packs a wheel of the Python package from a finished build, without compiling.

    python tools/pack_wheel.py BUILD OUT        BUILD: build/release, with the target lockstep_python

Needs scikit-build-core, which makes the same metadata for `pip wheel`. Prints the path of the wheel.
"""
import base64
import hashlib
import os
import pathlib
import subprocess
import sys
import tempfile
import zipfile

from scikit_build_core.build import prepare_metadata_for_build_wheel

ROOT = pathlib.Path(__file__).resolve().parents[1]


def digest(data):
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def write_wheel(folder, metadata, wheel):
    """A zip of all files below `folder`, and their digests as its last one."""
    record = []
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(path for path in folder.rglob("*") if path.is_file()):
            name, data = file.relative_to(folder).as_posix(), file.read_bytes()
            archive.write(file, name)
            record.append(f"{name},sha256={digest(data)},{len(data)}\n")
        archive.writestr(f"{metadata}/RECORD", "".join(record) + f"{metadata}/RECORD,,\n")


def main(build, out):
    build, out = pathlib.Path(build).resolve(), pathlib.Path(out).resolve()
    out.mkdir(parents=True, exist_ok=True)
    os.chdir(ROOT)  # of pyproject.toml
    with tempfile.TemporaryDirectory() as folder:
        metadata = prepare_metadata_for_build_wheel(folder, {})
        subprocess.run(["cmake", "--install", build, "--component", "python", "--prefix", folder, "--strip"], check=True,
                       stdout=sys.stderr)
        lines = (pathlib.Path(folder) / metadata / "WHEEL").read_text().splitlines()
        tag = next(line.removeprefix("Tag: ") for line in lines if line.startswith("Tag: "))
        wheel = out / f"{metadata.removesuffix('.dist-info')}-{tag}.whl"
        write_wheel(pathlib.Path(folder), metadata, wheel)
    print(wheel)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
