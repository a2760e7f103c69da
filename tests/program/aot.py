#!/usr/bin/env python3
"""tegula aot: a program in C calls kernels that were compiled ahead of time, on a machine where no compiler is found, and opens none.
Arguments: the program, a library of exported callables, libtegula.so's folder, the folder of tegula.h, a C compiler."""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

program, library, lib_folder, headers, compiler = sys.argv[1:6]
CONSUMER = pathlib.Path(__file__).with_name("ahead_consumer.c")


def run(*words, code=0, env=None):
    done = subprocess.run(words, capture_output=True, text=True, env=env)
    assert done.returncode == code, f"{words}: exit code {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout + done.stderr


with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    shapes = folder / "shapes.txt"
    shapes.write_text("add N=4096\nadd N=4097\naffine M=64 N=64 factor=1 offset=1 repeat=2 twice=1 sign=0 step=0.5\n"
                      "doubled M=64 N=64 offset=0 ROWS=8 TURNS=1\n")
    told = run(program, "aot", "--lib", library, "--shapes", str(shapes), "-o", str(folder / "out"), "--name", "mine")
    assert told.startswith("4 kernels, "), told
    shapes.write_text("window_attention B=1 H=1 G=1 Q=16 K=16 D=16 E=16\n")
    refused = run(program, "aot", "--lib", library, "--shapes", str(shapes), "-o", str(folder / "none"), code=2)
    assert "window_attention is no kernel" in refused, refused

    consumer = folder / "consumer"
    run(compiler, "-std=c11", "-Wall", "-Wextra", "-Werror", str(CONSUMER), str(folder / "out/mine.o"), f"-I{folder / 'out'}", f"-I{headers}",
        f"-L{lib_folder}", f"-Wl,-rpath,{lib_folder}", "-ltegula", "-ldl", "-o", str(consumer))
    # Not linked, and not opened: the program lists what it has mapped at its end.
    assert not re.search(r"llvm|nvrtc", run("ldd", str(consumer)), re.IGNORECASE)
    bare = {"PATH": "/nonexistent", "HOME": str(folder), "TEGULA_JIT": "deny", "CUDA_HOME": "/nonexistent"}
    out = run(str(consumer), env=bare)
    found = re.search(r"^found (\d+) (\d+) -1 -1$", out, re.MULTILINE)
    assert found and found[1] != found[2], out
    assert re.search(r"^(no GPU: |launched)", out, re.MULTILINE), out
    assert "maps: 0 of LLVM or NVRTC" in out, out
    assert not any(folder.rglob("*.tgk")), "nothing is compiled or kept"
print("tegula aot: ok" + ("" if "no GPU" in out else ", launched"))
