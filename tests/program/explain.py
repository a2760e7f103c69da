#!/usr/bin/env python3
"""tegula explain: every kernel that it offers, in texts that name no GPU that is not present. Argument: the program."""
import re
import subprocess
import sys

program = sys.argv[1]


def run(*words):
    done = subprocess.run([program, *words], capture_output=True, text=True)
    assert done.returncode == 0, f"{words}: exit code {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


kernels = re.search(r"KERNEL \S*\{([a-z_,]+)\}", run("explain", "--help"))[1].split(",")
assert {"vector_add", "softmax", "rms_norm", "matmul", "attention"} <= set(kernels), kernels
for kernel in kernels:
    said = run("explain", kernel)
    lines = said.splitlines()
    assert re.match(r"kernel \w+ for (cuda:0|a GPU that is not present) by llvm \(sm_90a\)$", lines[0]), lines[0]
    assert ("not present" in lines[0]) == ("no GPU is present: the roofline is for the profile " in said), said
    assert said.count("plan { num_warps=") == 1 and "roofline for " in said, said
    remarks = [line for line in lines if re.search(r": (missed|applied|note): ", line)]
    assert remarks and len(remarks) == len(set(remarks)), remarks
    assert ("guard kept" in said) == ("hint: a guard is a bounds check." in said), said
print("tegula explain: ok")
