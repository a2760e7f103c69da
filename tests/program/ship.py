#!/usr/bin/env python3
"""From exported calls of the library to shipped winners: tegula tune measures what they decide, bench/ship_winners.py writes the files.
tegula audit of the same call. Arguments: the program, a library of exported callables, the folder of the sources."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

program, library, sources = sys.argv[1:4]


def run(*words, code=0):
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == code, f"{words}: exit code {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    os.environ.update(TEGULA_CACHE_DIR=str(folder / "cache"), TEGULA_CACHE="on")
    shapes = folder / "shapes.txt"
    shapes.write_text("window_attention B=1 H=1 G=1 Q=32 K=32 D=16 E=16 lse=none sinks=none # decides its tiles\ntwice_added N=64\n")
    tune = lambda *words, **more: run(program, "tune", "--lib", library, "--shapes", str(shapes), "--device", "cpu", *words, **more).splitlines()

    told = tune("--seconds-each", "0.5", code=3)
    assert told[0].startswith("1/2 window_attention B=1 ") and "attention_tiles " in told[0] and " of default" in told[0], told
    assert "twice_added N=64: failed: twice_added is not a kernel and has no decisions" in told[1], told
    again = tune(code=3)
    assert again[0].startswith("1/2 window_attention") and ": known attention_tiles " in again[0], again
    late = tune("--seconds", "0.000001")
    assert late == [late[0]] and ", 2 not reached, in " in late[0], late

    # Winners of the library's families become files; those of users' kernels do not.
    ship = lambda: run(sys.executable, sources + "/bench/ship_winners.py", str(folder / "cache/tuning.db"), "--to", str(folder / "winners"), "--least-gain", "-99")
    assert "1 taken, 1 in all" in ship() and "1 taken, 1 in all" in ship(), "a second time replaces them"
    file = folder / "winners/cpu/attention-tiles.jsonl"
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    assert len(rows) == 1 and rows[0]["family"] == "attention_tiles" and rows[0]["numerics"] == "as the defaults" and rows[0]["at"] == 0, rows

    # An audit that ends for want of time goes on where it was.
    audit = lambda *words: run(program, "audit", "--lib", library, "--shapes", str(shapes), "--device", "cpu", "--configurations", "6", "--tunings", "2", *words, code=0)
    events = folder / "audit.jsonl"
    told = audit("-o", str(events))
    assert "timed, best " in told and "model's choice " in told and told.count("tuned in ") == 2 and "decisions: tuned " in told, told
    row = json.loads(events.read_text().splitlines()[0])
    assert row["is_complete"] and row["configs"][0]["ratio"] == 1 and len(row["tunings"]) == 2, row
    assert any(c["config"] == row["best"] for c in row["configs"]), row
    assert "not reached" in audit("--seconds", "0.000001")
print("ship: ok")
