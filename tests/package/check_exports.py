#!/usr/bin/env python3
"""check_exports.py LIB_DIR: our shared libraries show our names only and need each other, the C library and the unwinder only."""
import pathlib
import re
import subprocess
import sys

# A thread-local or inline static, guard, vtable... of tegula:: demangles to a text that names tegula:: too. Binutils leave
# Clang's names of constrained template arguments as they are.
SHOWN = {"libtegula.so": re.compile(r"tegula::|tegula_|^_Z[A-Z]*6tegula"), "libtegula_llvm.so": re.compile(r"tegula_llvm_")}
NEEDED = re.compile(r"(libtegula|libgcc_s|libc|libm|libgcc_s|libdl|libpthread|ld-linux-x86-64)\.so")


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def faults(library, shown):
    for line in output("nm", "-D", "-C", "--defined-only", str(library)).splitlines():
        name = line.split(maxsplit=2)[2]
        if not shown.search(name):
            yield f"{library.name} shows {name}"
    for name in re.findall(r"\(NEEDED\).*\[(.*)\]", output("readelf", "-d", str(library))):
        if not NEEDED.match(name):
            yield f"{library.name} needs {name}"


def main(folder):
    libraries = [(pathlib.Path(folder) / name, shown) for name, shown in SHOWN.items()]
    found = [fault for library, shown in libraries if library.exists() for fault in faults(library, shown)]
    print("\n".join(found))
    if not libraries[0][0].exists():
        sys.exit(f"{libraries[0][0]} is not there")
    sys.exit(1 if found else 0)


main(sys.argv[1])
