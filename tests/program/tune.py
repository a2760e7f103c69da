#!/usr/bin/env python3
"""tegula tune: measures exported kernels, goes on where it was, writes bundles and events. Arguments: the program and a library of
exported callables."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

program, library = sys.argv[1:3]


def run(*words, code=0, **environment):
    done = subprocess.run([program, *words], capture_output=True, text=True, env={**os.environ, **environment})
    assert done.returncode == code, f"{words}: exit code {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout + done.stderr


with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    os.environ.update(TEGULA_CACHE_DIR=str(folder / "cache"), TEGULA_CACHE="on")
    shapes = folder / "shapes.txt"
    shapes.write_text("# two shapes\ndoubled M=16 N=128 offset=3\n\ndoubled M=8 N=64 offset=3 # small\n")
    tune = lambda *words, **more: run("tune", "--lib", library, "--shapes", str(shapes), "--device", "cpu", *words, **more)

    assert tune("--budget", "off") == "2 shapes are sound\n"
    bundle = folder / "b.tgb"
    told = tune("-o", str(bundle)).splitlines()
    assert len(told) == 3, told
    assert told[0].startswith("1/2 doubled M=16 N=128 offset=3: won ROWS="), told
    assert "TURNS=1 (0." in told[0] and " of default, " in told[0] and told[0].endswith(" settings)"), told
    assert told[2].startswith("2 shapes: 2 won, 0 kept, 0 known, 0 of low confidence, 0 failed, in "), told

    # A known setting is not measured again, unless that is asked for.
    again = tune().splitlines()
    assert again[0].startswith("1/2 doubled M=16 N=128 offset=3: known ") and again[2].startswith("2 shapes: 0 won, 0 kept, 2 known"), again
    assert {"won", "kept"} & set(tune("--again").split()), "measured again"
    events = [json.loads(line) for line in tune("--json", TEGULA_CACHE_DIR=str(folder / "third")).splitlines()]
    assert events[0] == {"event": "device", "name": "cpu"}, events[0]
    phases = {e["phase"] for e in events if e["event"] == "progress"}
    assert {"compile", "race"} <= phases, phases
    assert {e["config"] for e in events if e["event"] == "candidate"} >= {"ROWS=1 TURNS=1", "ROWS=8 TURNS=1"}, events
    assert [e["verdict"] for e in events if e["event"] == "shape"] == ["won", "won"], events
    assert events[-1]["event"] == "end" and events[-1]["won"] == 2, events[-1]

    # Another user has the winners by the bundle.
    elsewhere = dict(TEGULA_CACHE_DIR=str(folder / "other"))
    assert "2 known" in tune(TEGULA_BUNDLES=str(bundle), **elsewhere)
    assert "1 kernels" in run("cache", "import", str(bundle), **elsewhere)  # the winners are its only entry: `cpu` has no code
    assert "2 known" in tune(**elsewhere)

    # A file with mistakes.
    shapes.write_text("doubled M=16 N=128\nadd N=64\nabsent N=3\ndoubled M=16 N=128 offset=2\n")
    told = tune(code=3)
    assert "1/4 doubled M=16 N=128: failed: line 1, doubled M=16 N=128: pass the number offset=.." in told, told
    assert "add N=64: failed: error T0614: add: " in told or "T0614" in told, told
    assert "line 3, absent N=3: none of the libraries exports it" in told, told
    assert "4 shapes: 0 won, 0 kept, 1 known, 0 of low confidence, 3 failed" in told, told
    shapes.write_text("add N=64\nabsent N=3\n")
    unwritten = folder / "unwritten.tgb"
    assert f"no shape has a winner or GPU code: {unwritten} is not written" in tune("-o", str(unwritten), code=2)
    assert not unwritten.exists()
    shapes.write_text("doubled M=16 N\n")
    assert "shapes.txt:1: N is not NAME=VALUE" in tune(code=2)
    assert "--again" in run("tune", "--help") and "Examples:" in run("tune", "--help")
print("tegula tune: ok")
