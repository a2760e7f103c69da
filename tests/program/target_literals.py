#!/usr/bin/env python3
"""tools/dev/check_targets.py rejects facts of one GPU that are planted in library code, and nothing similar.

target_literals.py REPOSITORY"""
import pathlib
import subprocess
import sys
import tempfile

PLANTED = {
    "ir/passes/a.cpp": 'if (k.info.target.starts_with("sm_90")) return;',
    "ir/passes/b.cpp": "constexpr std::int64_t kShared = 232448;",
    "ir/passes/c.cpp": "constexpr std::int64_t kRing = 227 * 1024;",
    "ir/passes/d.cpp": "constexpr int kGroupRows = 64;",
    "codegen/sim/e.cpp": "constexpr std::int64_t kRegisterFile = 65536;",
    "runtime/f.cpp": "const int most = 2048 / threads;",
    "kernels/include/tegula/kernels/g.h": "  int sms = 114;",
    "kernels/attention/h.cpp": "return std::min(132, tiles);",
    "autotune/i.cpp": "constexpr double kBytesPerSecond = 4.8e12;",
    "autotune/j.cpp": "constexpr double kLatencyCycles = 2606;",
    "ir/k.cpp": "return 16384 / (32 * warps);",
}
SILENT = {
    "ir/target.h": "int registers_per_sm = 65536;",
    "ir/targets.def": "TARGET(sm_90a, .shared_bytes_per_cta = 227 * 1024)",
    "autotune/profiles/rows.h": "inline constexpr int kSms = 132;",
    "ir/passes/l.cpp": "// An SM of sm_90 has 65536 registers, and 132 of them make an H200.",
    "ir/passes/m.cpp": "constexpr int kLeastDepth = 2048, kSide = 1320;",
    "runtime/n.cpp": 'fmt::format("sm_{}", capability);',
    "tests/unit/o.cpp": 'k.info.target = ir::Target("sm_80");',
    "codegen/p.cpp": '"of 8-bit floats needs sm_90 or later"',
}


def said(check, files):
    """Returns the check's reports for a repository of these files, by file."""
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        subprocess.run(["git", "init", "-q", folder], check=True)
        for name, text in files.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text + "\n")
        run = subprocess.run([check, folder], capture_output=True, text=True)
    assert run.returncode == (1 if run.stdout else 0), run.stderr
    return {line.split(":")[0] for line in run.stdout.splitlines()}


def main():
    repository = pathlib.Path(sys.argv[1])
    check = repository / "tools/dev/check_targets.py"
    missed = PLANTED.keys() - said(check, PLANTED)
    assert not missed, f"not refused: {missed}"
    wrong = said(check, SILENT)
    assert not wrong, f"refused without reason: {wrong}"
    own = subprocess.run([check, repository], capture_output=True, text=True)
    assert own.returncode == 0, own.stdout
    print(f"{len(PLANTED)} planted facts are refused, {len(SILENT)} near misses are not")


if __name__ == "__main__":
    sys.exit(main())
