#!/usr/bin/env python3
"""Rejects GPU-specific facts outside the target table and the device profiles.

check_targets.py [ROOT]: names of targets, sizes of shared memory, registers and threads of an SM, warps and rows of
a warpgroup, numbers of SMs and peak rates belong in ir/target.h, ir/targets.def and autotune/profiles/ only.
Tests and lessons may name the targets that they are about.
"""
import pathlib
import re
import subprocess
import sys

FOLDERS = ["support", "ir", "codegen", "runtime", "dsl", "autotune", "kernels", "tools", "bench"]
HOMES = ("ir/target.h", "ir/target.cpp", "ir/targets.def", "autotune/profiles/")
COMMENT = re.compile(r"^\s*//.*|\s//[ /!].*")

RULES = [
    (re.compile(r'"sm_\d'), "the name of a target; query the row (k.info.target->has_wgmma)"),
    (re.compile(r"\b(232'?448|233'?472|166'?912|167'?936)\b|\b(16[34]|22[578])\s*(\*\s*1024|<<\s*10)\b"),
     "shared memory of a CTA or an SM; use TargetRow::shared_bytes_per_cta, ring_bytes()"),
    (re.compile(r"\b(65'?536|64\s*\*\s*1024)\b|\b16'?384\s*/"), "registers of an SM; use TargetRow::registers_per_sm"),
    (re.compile(r"\b2048\s*/|/\s*2048\b"), "threads of an SM; use TargetRow::max_threads_per_sm"),
    (re.compile(r"\b132\b"), "the number of SMs of one GPU; use the device profile"),
    (re.compile(r"\bsms?\w*\s*=\s*[1-9]"), "a number of SMs; use the device profile"),
    (re.compile(r"constexpr[^;]*\bk\w*[Gg]roup(Rows|Warps|Threads)\b\s*=\s*\d"),
     "the shape of a warpgroup; use kWarpgroupWarps, kWarpgroupThreads, kWgmmaRows"),
    (re.compile(r"constexpr double k\w*(Cycles?|Seconds?|PerUs|Flops)\b"),
     "a rate that was measured on one GPU; use the device profile"),
    (re.compile(r"\b(4\.8e12|3\.35e12|989(\.\d)?e12)\b"), "a peak rate of one GPU; use the device profile"),
]


def faults(path, text):
    """Returns (line, reason) for each GPU-specific fact in a file of the repository."""
    if path.startswith(HOMES):
        return []
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        code = COMMENT.sub("", line)
        found += [(number, reason) for pattern, reason in RULES if pattern.search(code)]
    return found


def main():
    root = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parents[2]
    files = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.h", "*.cpp", "*.def"],
                           cwd=root, check=True, capture_output=True, text=True).stdout.split()
    count = 0
    for file in files:
        if file.split("/")[0] not in FOLDERS or not (root / file).exists():
            continue
        for number, reason in faults(file, (root / file).read_text()):
            print(f"{file}:{number}: {reason}")
            count += 1
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
