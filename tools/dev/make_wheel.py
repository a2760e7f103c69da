#!/usr/bin/env python3
"""make_wheel.py PREFIX OUT: packs the components `library` and `python`, installed in PREFIX, as a wheel in OUT, with the
texts in PREFIX/licenses.

The wheel contains the Python package with the shared libraries in tegula/lib, so that pip only unpacks it. Its platform tag
is that of the oldest glibc whose symbols the libraries need (PEP 600). Uses the standard library and readelf.
"""
import base64
import hashlib
import pathlib
import platform
import re
import subprocess
import sys
import tomllib
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
# System libraries that PEP 600 permits a wheel to use, limited to those that the libraries need.
SYSTEM = re.compile(r"(libc|libm|libdl|libpthread|librt|libgcc_s|ld-linux-x86-64)\.so")


def readelf(option, path):
    return subprocess.run(["readelf", option, "--wide", str(path)], check=True, capture_output=True, text=True).stdout


def glibc_of(files):
    """Returns (major, minor) of the newest glibc symbol that the files need. Exits if they need other libraries."""
    newest, ours = (2, 17), {path.name for path in files}
    for path in files:
        for name in re.findall(r"\(NEEDED\).*\[(.*)\]", readelf("--dynamic", path)):
            if name not in ours and not SYSTEM.match(name):
                sys.exit(f"make_wheel: {path.name} needs {name}, which is neither in the wheel nor on every system")
        versions = re.findall(r"\bGLIBC_(\d+)\.(\d+)", readelf("--version-info", path))
        newest = max([newest, *((int(major), int(minor)) for major, minor in versions)])
    return newest


def contents(prefix):
    """Returns a map from path in the wheel to file, and the list of ELF files among them."""
    package = next(prefix.glob("share/**/tegula/__init__.py")).parent
    files = {f"tegula/{path.name}": path for path in package.glob("*.py")}
    soname = next(path for path in prefix.glob("lib*/**/libtegula.so.*") if re.fullmatch(r"libtegula\.so\.\d+", path.name))
    libraries, elf = soname.parent, []
    for path in [soname, libraries / "libtegula_llvm.so", libraries / "libtegula_python_kernels.so",
                 libraries / "tegula" / "tegula-worker"]:
        files[f"tegula/lib/{path.relative_to(libraries)}"] = path
        elf.append(path)
    for path in (libraries / "tegula" / "winners").glob("**/*.jsonl"):
        files[f"tegula/lib/{path.relative_to(libraries)}"] = path
    return files, elf


def write(wheel, name, data, is_executable, record):
    info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))  # fixed time, so that equal contents give equal wheels
    info.external_attr = (0o100755 if is_executable else 0o100644) << 16
    info.compress_type = zipfile.ZIP_DEFLATED
    wheel.writestr(info, data)
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    record.append(f"{name},sha256={digest},{len(data)}")


def main(prefix, out):
    project = tomllib.loads((ROOT / "python/pyproject.toml").read_text())["project"]
    files, elf = contents(prefix)
    major, minor = glibc_of(elf)
    name = f"{project['name']}-{project['version']}"
    tag = f"py3-none-manylinux_{major}_{minor}_{platform.machine()}"
    info = f"{name}.dist-info"
    texts = {
        "METADATA": f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
                    f"Summary: {project['description']}\nRequires-Python: {project['requires-python']}\n"
                    "License-File: LICENSE\n",
        "WHEEL": f"Wheel-Version: 1.0\nGenerator: make_wheel\nRoot-Is-Purelib: false\nTag: {tag}\n",
        "LICENSE": (ROOT / "LICENSE").read_text(),
    }
    record = []
    with zipfile.ZipFile(out / f"{name}-{tag}.whl", "w", compresslevel=9) as wheel:
        for path, file in sorted(files.items()):
            write(wheel, path, file.read_bytes(), file in elf, record)
        for path, text in texts.items():
            write(wheel, f"{info}/{path}", text.encode(), False, record)
        for path in sorted(prefix.glob("licenses/*")):
            write(wheel, f"{info}/licenses/{path.name}", path.read_bytes(), False, record)
        listed = "\n".join([*record, f"{info}/RECORD,,"]) + "\n"
        write(wheel, f"{info}/RECORD", listed.encode(), False, [])


main(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))
