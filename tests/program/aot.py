#!/usr/bin/env python3
"""tegula aot: a program in C calls a kernel and a product of the library that were compiled ahead of time, on a machine where no
compiler is found, and opens none.
Arguments: the program, a library of exported callables, libtegula.so's folder, the folder of tegula.h, a C compiler."""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

program, library, lib_folder, headers, compiler = sys.argv[1:6]
VALIDATION = 105  # exit code of options that are refused
CONSUMER = pathlib.Path(__file__).with_name("ahead_consumer.c")


def run(*words, code=0, env=None):
    done = subprocess.run(words, capture_output=True, text=True, env=env)
    assert done.returncode == code, f"{words}: exit code {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout + done.stderr


with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    shapes = folder / "shapes.txt"
    shapes.write_text("add N=4096\nadd N=4097\naffine M=64 N=64 factor=1 offset=1 repeat=2 twice=1 sign=0 step=0.5\n"
                      "doubled M=64 N=64 offset=0 ROWS=8 TURNS=1\nproduct M=64 N=96 K=128\n"
                      "window_attention B=1 H=2 G=1 Q=128 K=128 D=64 E=64 sinks=none\nexperts T=64 H=128 E=4 G=5 U=256 I=128\n")
    told = run(program, "aot", "--lib", library, "--shapes", str(shapes), "-o", str(folder / "out"), "--name", "mine")
    assert re.match(r"7 calls, \d+ kernels, ", told), told

    def refused(line, *options, code=2):
        shapes.write_text(line + "\n")
        return run(program, "aot", "--lib", library, "--shapes", str(shapes), "-o", str(folder / "none"), *options, code=code)

    for extent in "x", "-4", "4.5", "99999999999999999999":
        assert f"line 1, add N={extent}: N={extent} is not an extent" in refused(f"add N={extent}")
    assert "is not a kernel with values of tune()" in refused("product M=64 N=96 K=128 ROWS=8")
    models = refused("product M=64 N=96 K=128", "--gpu", "B300").split("unknown model B300: the models are ")[1].strip().split(", ")
    assert len(models) == len(set(models)), models
    assert "it is decided for NVIDIA H200" in refused("product M=64 N=96 K=128", "--gpu", "h200", "--target", "sm_80")

    for bad in "my lib", "2nd", "a-b", "":
        said = refused("product M=64 N=96 K=128", "--name", bad, code=VALIDATION)
        assert f"'{bad}' is not an identifier of C" in said, said
    assert not (folder / "none").exists()

    consumer = folder / "consumer"
    run(compiler, "-std=c11", "-Wall", "-Wextra", "-Werror", str(CONSUMER), str(folder / "out/mine.o"), f"-I{folder / 'out'}", f"-I{headers}",
        f"-L{lib_folder}", f"-Wl,-rpath,{lib_folder}", "-ltegula", "-ldl", "-o", str(consumer))
    # Not linked, and not opened: the program lists what it has mapped at its end.
    assert not re.search(r"llvm|nvrtc", run("ldd", str(consumer)), re.IGNORECASE)
    bare = {"PATH": "/nonexistent", "HOME": str(folder), "TEGULA_JIT": "deny", "CUDA_HOME": "/nonexistent"}
    out = run(str(consumer), env=bare)
    found = re.search(r"^found (\d+) (\d+) -1 -1 -1$", out, re.MULTILINE)
    assert found and found[1] != found[2], out
    assert re.search(r"^(no GPU: |launched)", out, re.MULTILINE), out
    assert re.search(r"^found product \d+ -1 -1$", out, re.MULTILINE), out
    assert "maps: 0 of LLVM or NVRTC" in out, out
    assert not any(folder.rglob("*.tgk")), "nothing is compiled or kept"
print("tegula aot: ok" + ("" if "no GPU" in out else ", launched"))
