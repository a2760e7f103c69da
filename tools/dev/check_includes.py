#!/usr/bin/env python3
"""Checks that includes follow the one line of dependencies and the rules of public headers.

support <- ir <- codegen <- runtime <- dsl <- autotune <- kernels <- {tools, examples, bench, tests}:
a folder may include itself and those to its left. Public headers include std and each other only, the one for C
the C library's and DLPack's; LLVM's headers
stay in codegen/llvm; no include contains `../`; kernels and examples use the public language only. An argument selects
a tree other than that of this file.
"""
import pathlib
import re
import subprocess
import sys

LAYERS = ["support", "ir", "codegen", "runtime", "dsl", "autotune", "kernels"]
C_HEADER, FOR_C = "dsl/include/tegula.h", ("stddef.h", "stdint.h", "dlpack/dlpack.h")
INCLUDE = re.compile(r'^\s*#\s*include\s+([<"])([^>"]+)[>"]')


def public_headers(root):
    """Returns the layer that installs "tegula/x.h"."""
    owners = {}
    for layer in LAYERS:
        base = root / layer / "include"
        for header in base.rglob("*.h"):
            owners[header.relative_to(base).as_posix()] = layer
    return owners


def fault(path, name, quoted, owners):
    """Returns the reason why `path` must not include `name`, or None."""
    here = path.parts[0]
    is_public = len(path.parts) > 1 and path.parts[1] == "include"
    owner = owners.get(name) or (name.split("/")[0] if "/" in name else None)
    ours = name in owners or owner in LAYERS or owner in ("tools", "bench", "tests", "examples")
    if name.startswith("../") or "/../" in name:
        return "climbs with ../; name it from the repository root"
    if name.startswith("tegula/") and name not in owners:
        return "is no public header of ours"
    if name.startswith(("llvm/", "llvm-c/")) and path.parts[:2] != ("codegen", "llvm"):
        return "LLVM's headers stay in codegen/llvm"
    if str(path) == C_HEADER and name in FOR_C:
        return None
    if is_public and name not in owners and ("/" in name or name.endswith(".h") or quoted):
        return "a public header includes std and public headers only"
    if here in LAYERS and ours:
        if owner not in LAYERS or LAYERS.index(owner) > LAYERS.index(here):
            return f"{here}/ may not see {owner}/"
    if str(path) == "kernels/argument_error.h" and name == "support/errors.h":
        return None  # the table of codes
    if here == "kernels" and ours and name not in owners and owner != "kernels":
        return "kernels are written in the public language only"
    if here == "examples" and ours and name not in owners:
        return "lessons use public headers only"
    return None


def main(root):
    owners = public_headers(root)
    files = subprocess.run(["git", "ls-files", "*.h", "*.cpp", "*.def"], cwd=root, check=True,
                           capture_output=True, text=True).stdout.split()
    faults = 0
    for file in files:
        path = pathlib.Path(file)
        if path.parts[0] not in LAYERS + ["tools", "examples", "bench", "tests"] or not (root / path).exists():
            continue
        for number, line in enumerate((root / path).read_text().splitlines(), 1):
            match = INCLUDE.match(line)
            reason = match and fault(path, match[2], match[1] == '"', owners)
            if reason:
                print(f"{file}:{number}: {match[2]}: {reason}")
                faults += 1
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1] if sys.argv[1:] else __file__ + "/../../..").resolve()))
