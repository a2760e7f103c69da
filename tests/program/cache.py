#!/usr/bin/env python3
"""tegula cache: lists, compares, checks and bundles what lessons left in a cache. Arguments: the program and two
lessons."""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

program, lesson, other = sys.argv[1:4]


def run(*words, code=0, **environment):
    done = subprocess.run(words, capture_output=True, text=True, env={**os.environ, **environment})
    assert done.returncode == code, f"{words}: exit code {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout + done.stderr


with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    os.environ.update(TEGULA_CACHE_DIR=str(folder / "cache"), TEGULA_DEVICE="sim")
    os.environ.pop("TEGULA_CACHE", None)
    cache = lambda *words, **more: run(program, "cache", *words, **more)

    assert cache("ls") == "0 kernels, 0 bytes\n"
    report = run(lesson, TEGULA_REPORT="1")
    assert "compiled" in report and "0 from the disk cache" in report, report
    run(lesson, TEGULA_CHECK="retrace")
    assert "0 compiled" in run(lesson, TEGULA_REPORT="1", TEGULA_JIT="deny")
    run(lesson, TEGULA_PLAN="num_warps=2")

    rows = cache("ls").splitlines()
    assert rows[-1].startswith("2 kernels, "), rows
    first, second = (row.split()[0] for row in rows[:2])
    assert 'field "TEGULA_PLAN": ' in cache("why", first, second), cache("why", first, second)
    assert cache("why", first, first) == "both ids name the same entry\n"
    assert "target: sm_90a" in cache("show", first)
    assert "no entry begins with" in cache("show", "0123456789", code=2)
    assert cache("verify") == "2 valid, 0 damaged\n"
    # Kernels of the simulator have no machine code.
    bundle = folder / "b.tgb"
    assert "nothing to export: none of the entries has code for a GPU" in cache("export", "-o", str(bundle), code=2)
    assert "nothing to export: none of the entries given has" in cache("export", "-o", str(bundle), first, code=2)
    assert "nothing to export: the cache is empty" in cache("export", "-o", str(bundle), code=2, TEGULA_CACHE_DIR=str(folder / "empty"))
    assert not bundle.exists()
    (folder / "bad.tgb").write_bytes(b"TEGULAB1 and nothing more")
    assert "cannot use the bundle" in cache("import", str(folder / "bad.tgb"), code=2)

    entry = next((folder / "cache/v1/k").rglob("*.tgk"))
    damaged = bytearray(entry.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    entry.write_bytes(damaged)
    assert cache("verify", code=2).endswith("1 valid, 1 damaged\n")
    refused = run(lesson, TEGULA_PLAN="num_warps=4", TEGULA_JIT="deny", code=-6)
    assert "01_vector_add.cpp:" in refused and "error T1229" in refused, refused
    assert "0 entries removed\n" in cache("gc", "--max-bytes", "1")  # none is ten minutes old

    run(other)
    ids = {name: key for key, name in (row.split()[:2] for row in cache("ls").splitlines()[:-1])}
    told = cache("why", ids.pop("add"), ids.popitem()[1])
    assert re.search(r'^field "ir": two kernels, add and \w+: line ([2-9]|\d\d+): .+ -> ', told), told
print("tegula cache: ok")
