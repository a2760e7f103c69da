#!/usr/bin/env python3
"""Checks that every public header compiles alone, and that two files including all of them link together."""
import concurrent.futures
import os
import pathlib
import subprocess
import sys
import tempfile

FLAGS = ["-std=c++20", "-Wall", "-Wextra", "-Werror"]


def compiled(compiler, source, includes, output):
    """Returns the compiler's error for the text `source`, or ''."""
    command = [compiler, *FLAGS, *includes, "-x", "c++", "-", "-c", "-o", output]
    return subprocess.run(command, input=source, capture_output=True, text=True).stderr


def main():
    root = pathlib.Path(__file__).resolve().parents[2]
    compiler = os.environ.get("CXX", "g++")
    bases = sorted(root.glob("*/include"))
    includes = [f"-I{base}" for base in bases]
    headers = sorted(h.relative_to(base).as_posix() for base in bases for h in base.rglob("*.h"))
    everything = "".join(f'#include "{h}"\n' for h in headers)
    faults = []
    with tempfile.TemporaryDirectory() as folder, \
            concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        # Include twice in one file, to find a missing #pragma once, too.
        jobs = {h: pool.submit(compiled, compiler, f'#include "{h}"\n#include "{h}"\n', includes, os.devnull)
                for h in headers}
        pair = {name: pool.submit(compiled, compiler, everything + body, includes, f"{folder}/{name}.o")
                for name, body in (("a", "int other();\nint main() { return other(); }\n"),
                                   ("b", "int other();\nint other() { return 0; }\n"))}
        faults += [f"{name}: does not compile alone\n{job.result()}" for name, job in jobs.items() if job.result()]
        if not faults and not any(job.result() for job in pair.values()):
            # Ignore undefined symbols, which the library defines; a definition in both files is the error to find.
            link = subprocess.run([compiler, "-r", f"{folder}/a.o", f"{folder}/b.o", "-o", f"{folder}/ab.o"],
                                  capture_output=True, text=True)
            if link.returncode:
                faults.append(f"two files with all headers do not link\n{link.stderr}")
        else:
            faults += [job.result() for job in pair.values() if job.result()]
    print("\n".join(faults))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
