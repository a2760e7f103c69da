#!/usr/bin/env python3
"""Runs tegula_host_calls of two versions alternately and prints microseconds per call, old next to new.

compare.py OLD NEW [--rounds N] [ARGUMENTS...]: OLD and NEW are the programs, ARGUMENTS are passed to both (--gpu). A row
is the best of its rounds. `over plain` is the cost of a call beyond its launches, each counted as a plain kernel of
four tensors in the same mode.
"""
import json
import subprocess
import sys


def rows(program, arguments):
    out = subprocess.run([program, *arguments], check=True, capture_output=True, text=True).stdout
    return [json.loads(line) for line in out.splitlines() if line.startswith("{")]


def main(arguments):
    rounds = 3
    if "--rounds" in arguments:
        at = arguments.index("--rounds")
        rounds = int(arguments[at + 1])
        arguments = arguments[:at] + arguments[at + 2:]
    programs, rest = arguments[:2], arguments[2:]
    best = [{}, {}]
    for _ in range(rounds):
        for which, program in enumerate(programs):
            for row in rows(program, rest):
                key = row["row"], row["mode"], row["threads"]
                if key not in best[which] or row["us"] < best[which][key]["us"]:
                    best[which][key] = row
    print(f"{'row':18}{'mode':>10}{'threads':>9}{'launches':>14}{'us':>18}{'own us':>18}{'over plain':>18}")
    for key in best[1]:
        old, new = best[0].get(key), best[1][key]
        if old is None:
            continue
        plain = [b["plain_4", key[1], key[2]]["us"] for b in best]
        over = [r["us"] - r["launches"] * p for r, p in zip((old, new), plain)]
        print(f"{key[0]:18}{key[1]:>10}{key[2]:>9}{old['launches']:>6.1f} ->{new['launches']:>5.1f}"
              f"{old['us']:>8.2f} ->{new['us']:>7.2f}{old['own_us']:>8.2f} ->{new['own_us']:>7.2f}"
              f"{over[0]:>8.2f} ->{over[1]:>7.2f}")


if __name__ == "__main__":
    main(sys.argv[1:])
