#!/usr/bin/env python3
"""Mistakes in words of the program's command line: messages name the word and the nearest right one. Argument: the program."""
import subprocess
import sys

program = sys.argv[1]


def run(*words):
    done = subprocess.run([program, *words], capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def refused(*words):
    code, said = run(*words)
    assert code != 0, words
    return said


for words, text in (
    (("nonsense",), "tegula has no subcommand nonsense\n"),
    (("bundle",), "tegula has no subcommand bundle\n"),
    (("dotcor",), "tegula has no subcommand dotcor: did you mean doctor?\n"),
    (("cache", "exprt"), "cache has no subcommand exprt: did you mean export?\n"),
    (("schedule", "shw"), "schedule has no subcommand shw: did you mean show?\n"),
    ((), "A subcommand is required"),
    (("cache",), "A subcommand is required"),
    (("cache", "ls", "more"), "The following argument was not expected: more"),
    (("mask", "causl"), "NAME: causl is not allowed: did you mean causal?"),
    (("mask", "sliding"), "NAME: sliding is not allowed: did you mean sliding_window?"),
    (("mask", "nothing_like_it"), "nothing_like_it is not one of full,causal,"),
    (("mask", "causal", "--numbers", "1"), "causal has 0 numbers; 1 were given"),
    (("mask", "key_padding", "--numbers", "1,2"), "key_padding has 1 number, by default 900; 2 were given"),
    (("mask", "shared_prefix", "--numbers", "1,2,3"), "shared_prefix has 2 numbers, by default 256,12; 3 were given"),
    (("explain", "soft_max"), "soft_max is not allowed: did you mean softmax?"),
    (("explain", "softmax", "--target", "sm90a"), "did you mean sm_90a?"),
    (("opt", "--emit", "optimise"), "did you mean optimize?"),
):
    said = refused(*words)
    assert text in said, (words, said)

for words in (), ("cache",), ("mask",):
    code, said = run(*words, "--help")
    assert code == 0 and "Usage: " in said, (words, said)
assert run("nonsense", "--help")[0] == 0, "help comes first"
help_of_mask = run("mask", "--help")[1]
assert "shared_prefix" in help_of_mask and "256,12" in help_of_mask, help_of_mask
code, said = run("doctor")
assert code == 0 and "exit code is 0 whatever is missing" in run("doctor", "--help")[1], said
print("mistakes: ok")
