#!/usr/bin/env python3
"""TEGULA_JIT=deny: programs whose kernels were prepared run from a cache that they cannot write to, and compile nothing; another kernel
is refused. Arguments: lessons."""
import os
import pathlib
import shutil
import stat
import subprocess
import sys
import tempfile

lessons = [os.path.abspath(lesson) for lesson in sys.argv[1:]]
NOBODY = 65534  # root may write to whatever is read-only


def run(lesson, code=0, as_nobody=False, **environment):
    def drop():
        if as_nobody and os.geteuid() == 0:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)

    done = subprocess.run([lesson], capture_output=True, text=True, env={**os.environ, **environment}, preexec_fn=drop, cwd="/")
    assert done.returncode == code, f"{lesson}: exit code {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout + done.stderr


def seal(folder):
    """Read-only, and of the user who reads: files of others are not trusted."""
    for path in [*folder.rglob("*"), folder]:
        if os.geteuid() == 0:
            os.chown(path, NOBODY, NOBODY)
        path.chmod(0o500 if path.is_dir() else 0o400)


def listing(folder):
    return sorted((str(p), p.stat().st_size, p.stat().st_mtime_ns) for p in folder.rglob("*"))


with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    folder.chmod(0o755)
    cache = folder / "cache"
    os.environ.update(TEGULA_CACHE_DIR=str(cache), TEGULA_DEVICE="sim", TEGULA_CACHE="on", HOME="/nonexistent")
    wanted = [run(lesson) for lesson in lessons]
    assert any(cache.rglob("*.tgk")), "nothing was prepared"
    seal(cache)
    before = listing(cache)
    for lesson, text in zip(lessons, wanted):
        got = run(lesson, as_nobody=True, TEGULA_JIT="deny")
        assert got == text, f"{lesson}: {got}\nnot {text}"
        report = run(lesson, as_nobody=True, TEGULA_JIT="deny", TEGULA_REPORT="1")
        assert " 0 compiled" in report, report
    refused = run(lessons[0], code=-6, as_nobody=True, TEGULA_JIT="deny", TEGULA_PLAN="num_warps=2")
    assert "error T1229" in refused, refused
    assert listing(cache) == before, "something was written"
    for path in [folder, *folder.rglob("*")]:  # so that it can be removed
        if path.is_dir():
            path.chmod(stat.S_IRWXU)
    shutil.rmtree(cache)
print("TEGULA_JIT=deny: ok")
