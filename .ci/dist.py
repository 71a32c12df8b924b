"""What is published: a source distribution, and from it one wheel for each Python, looked at and tried.

    python .ci/dist.py --out dist PYTHON...

The wheels are for one version of Python each: the engine reads the structures of its interpreter. They are linked for
the glibc of Paddle's own wheels.
"""

from __future__ import annotations

import argparse
import email.message
import email.parser
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
GLIBC = "2.28"
PLATFORM = f"manylinux_{GLIBC.replace('.', '_')}_x86_64"
MOST_BYTES = 5_000_000
LIBRARIES = {"libstdc++.so.6", "libgcc_s.so.1", "libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0"}
METADATA = ("Name", "Version", "Summary", "License-Expression", "License-File", "Requires-Python", "Project-URL")


def run(*command: object, **options: object) -> str:
    """Runs a command and answers what it printed; what it prints is shown where it fails."""
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False, **options)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout


def source_distribution(out: Path) -> Path:
    """The source distribution."""
    run(sys.executable, "-m", "maturin", "sdist", "--out", out, cwd=ROOT)
    (found,) = out.glob("paddle_sot_rs-*.tar.gz")
    return found


def wheel(source: Path, python: str, out: Path) -> Path:
    """The wheel for one Python, built from an unpacked source distribution."""
    environment = os.environ | {
        "DIST_PYTHON": sys.executable,
        "DIST_GLIBC": GLIBC,
        "CARGO_TARGET_DIR": str(ROOT / "target" / "dist"),
        "CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_LINKER": str(ROOT / ".ci" / "manylinux-gcc"),
    }
    with tempfile.TemporaryDirectory() as folder:
        build = ["build", "--release", "--locked", "--interpreter", python, "--out", folder]
        run(
            *(sys.executable, "-m", "maturin", *build),
            *("--compatibility", PLATFORM.removesuffix("_x86_64"), "--auditwheel", "check"),
            cwd=source,
            env=environment,
        )
        (made,) = Path(folder).glob("*.whl")
        return Path(shutil.copy(made, out))


def check_wheel(path: Path, python: str) -> None:
    """Stops where a wheel has another tag than it should, needs too much, or lacks something."""
    number = run(python, "-c", "import sys; print('cp%d%d' % sys.version_info[:2])").strip()
    faults = []
    if not path.stem.endswith(f"-{number}-{number}-{PLATFORM}"):
        faults.append(f"its tag is not {number}-{number}-{PLATFORM}")
    shown = run(sys.executable, "-m", "auditwheel", "show", path)
    if not re.search(rf'following platform tag:\s+"{PLATFORM}"', shown):
        faults.append(f"auditwheel says:\n{shown}")
    if path.stat().st_size > MOST_BYTES:
        faults.append(f"it has {path.stat().st_size} bytes, more than {MOST_BYTES}")
    with zipfile.ZipFile(path) as archive, tempfile.TemporaryDirectory() as folder:
        names = archive.namelist()
        (module,) = (name for name in names if name.endswith(".so"))
        library = archive.extract(module, folder)
        needed = set(re.findall(r"NEEDED\s+(\S+)", run("objdump", "-p", library)))
        if more := {name for name in needed - LIBRARIES if not name.startswith("ld-linux")}:
            faults.append(f"it needs {sorted(more)}")
        if found := re.findall(r"\.debug_\w+|\.symtab", run("objdump", "-h", library)):
            faults.append(f"it is not stripped: {found}")
        (described,) = (name for name in names if name.endswith(".dist-info/METADATA"))
        faults += metadata_faults(email.parser.Parser().parsestr(archive.read(described).decode()))
        for name in ("py.typed", "_core.pyi"):
            if f"paddle_sot_rs/{name}" not in names:
                faults.append(f"{name} is missing")
    if faults:
        sys.exit("\n".join(f"{path.name}: {fault}" for fault in faults))


def metadata_faults(metadata: email.message.Message) -> list[str]:
    """What a wheel does not say of itself."""
    faults = [f"its metadata has no {name}" for name in METADATA if not metadata[name]]
    urls = {url.split(",")[0] for url in metadata.get_all("Project-URL", [])}
    if missing := {"Repository", "Documentation", "Issues", "Changelog"} - urls:
        faults.append(f"its metadata has no address of {sorted(missing)}")
    classifiers = metadata.get_all("Classifier", [])
    for version in ("3.11", "3.12", "3.13"):
        if f"Programming Language :: Python :: {version}" not in classifiers:
            faults.append(f"its metadata does not name Python {version}")
    return faults


def check_source(path: Path) -> None:
    """Stops where the source distribution lacks what a build or a reader wants."""
    with tarfile.open(path) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    wanted = {"Cargo.lock", "LICENSE", "README.md", "pyproject.toml", "python/Cargo.toml", "PKG-INFO"}
    if missing := wanted - names:
        sys.exit(f"{path.name} lacks {sorted(missing)}")


def try_wheel(path: Path, python: str) -> None:
    """Installs a wheel into a fresh environment, away from this folder, and runs the demo there."""
    with tempfile.TemporaryDirectory() as folder:
        run(python, "-m", "venv", folder)
        own = Path(folder) / "bin" / "python"
        run(own, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", path)
        where = run(own, "-c", "import paddle_sot_rs; print(paddle_sot_rs.__file__)", cwd=folder).strip()
        if not where.startswith(folder):
            sys.exit(f"{path.name} was not installed: {where} was imported")
        told = run(own, ROOT / "examples" / "demo.py", cwd=folder)
        if told.count("equal to eager") != 2 or told.count("True") != 2:
            sys.exit(f"{path.name}: the demo says\n{told}")


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pythons", nargs="+", metavar="PYTHON", help="interpreters to build for")
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="where everything goes (emptied before)")
    given = parser.parse_args()
    shutil.rmtree(given.out, ignore_errors=True)
    given.out.mkdir(parents=True)
    source = source_distribution(given.out.resolve())
    check_source(source)
    print(f"{source.name}: {source.stat().st_size} bytes", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(source) as archive:
            archive.extractall(folder, filter="data")
        (unpacked,) = Path(folder).iterdir()
        for python in given.pythons:
            made = wheel(unpacked, python, given.out)
            check_wheel(made, python)
            try_wheel(made, python)
            print(f"{made.name}: {made.stat().st_size} bytes, tried", flush=True)
    run(sys.executable, "-m", "twine", "check", "--strict", *given.out.iterdir())


if __name__ == "__main__":
    main()
