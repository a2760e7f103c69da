#!/usr/bin/env python3
"""Converts the winners of a tuning run into the files that are shipped (autotune/winners/README.md).

    python3 bench/ship_winners.py TUNING.DB [--to autotune/winners] [--least-gain 0]

Winners of the library's families that keep the default's bits and whose confidence interval of the ratio ends at or below 1 - least-gain replace those of the same
key in the files. At 0 this includes shapes whose default won, so that the winner of a similar shape is not used for them. Winners of user kernels are not
shipped.
"""
import argparse
import json
import pathlib
import re
import sqlite3

KEY = ("device", "family", "version", "problem", "numerics")
FIELDS = (*KEY, "config", "code", "ratio", "ratio_high", "candidates", "tools", "at")


def file_name_of(text):
    """Returns file names as in autotune/store/shipped_winners.cpp."""
    return re.sub(r"[^0-9A-Za-z]+", "-", text.lstrip("".join(c for c in map(chr, range(128)) if not c.isalnum()))).lower()


def winners_of(path):
    database = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    for row in database.execute(f"SELECT {', '.join(FIELDS)} FROM winner"):
        yield dict(zip(FIELDS, row))


def key_of(winner):
    return tuple(winner[name] for name in KEY)


def line_of(winner):
    """Sorts fields by name and clears the time, so that a file changes only if a winner does."""
    return json.dumps({"table": "winner", **winner, "at": 0}, sort_keys=True, separators=(",", ":"))


def merge(path, fresh):
    known = {key_of(w): w for w in (json.loads(line) for line in path.read_text().splitlines())} if path.exists() else {}
    known = {key: {name: w[name] for name in FIELDS} for key, w in known.items()}
    known.update({key_of(w): w for w in fresh})
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(line_of(known[key]) + "\n" for key in sorted(known)))
    return len(known)


def main():
    args = argparse.ArgumentParser(description=__doc__)
    args.add_argument("database")
    args.add_argument("--to", default="autotune/winners")
    args.add_argument("--least-gain", type=float, default=0.0)
    options = args.parse_args()
    files = {}
    for w in winners_of(options.database):
        is_ours = not w["family"].startswith("kernel ")
        if is_ours and w["numerics"] == "as the defaults" and w["ratio_high"] <= 1 - options.least_gain:
            files.setdefault(pathlib.Path(options.to) / file_name_of(w["device"]) / (file_name_of(w["family"]) + ".jsonl"), []).append(w)
    for path, fresh in sorted(files.items()):
        print(f"{path}: {len(fresh)} taken, {merge(path, fresh)} in all")
    if not files:
        print("no winner to take")


if __name__ == "__main__":
    main()
