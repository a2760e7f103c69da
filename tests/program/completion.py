#!/usr/bin/env python3
"""tegula completion: bash offers the program's commands and options. Argument: the program."""
import subprocess
import sys

program = sys.argv[1]
script = subprocess.run([program, "completion", "bash"], capture_output=True, text=True, check=True).stdout


def offered(line):
    words = line.split(" ")
    code = f'{script}\nCOMP_WORDS=({" ".join(repr(w) for w in words)}); COMP_CWORD={len(words) - 1}; _tegula; printf "%s\\n" "${{COMPREPLY[@]}}"'
    done = subprocess.run(["bash", "-c", code], capture_output=True, text=True)
    assert done.returncode == 0 and not done.stderr, done.stderr
    return done.stdout.split()


assert {"cache", "tune", "aot", "doctor"} <= set(offered("tegula ")), offered("tegula ")
assert offered("tegula tu") == ["tune"]
assert {"ls", "why", "export"} <= set(offered("tegula cache "))
assert "--max-bytes" in offered("tegula cache gc --")
assert offered("tegula tune --budg") == ["--budget"]
for shell, word in (("zsh", "bashcompinit"), ("fish", "complete -c tegula")):
    assert word in subprocess.run([program, "completion", shell], capture_output=True, text=True, check=True).stdout
assert subprocess.run([program, "completion", "csh"], capture_output=True).returncode != 0
print("tegula completion: ok")
