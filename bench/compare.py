#!/usr/bin/env python3
"""Compares two builds of the library on one GPU: is NEW as fast as OLD?

    python3 bench/compare.py OLD NEW [--suites matmul,attention_masks] [--filter RE] [--cases N] [--rounds N] [--out FILE.jsonl]
    python3 bench/compare.py --summary FILE.jsonl ..

OLD and NEW are packs (`make compare-pack`, `make gpu-pack`) or folders that contain libtegula_bench.so. Each is loaded by a separate process
(bench/compare_worker.py), which keeps its context, its kernels and the tensors of the current case, with equal inputs on both sides. The sides warm up
alternately until the times of both are stable; then each round times both, in random order. A row has the median of each side and their ratio
old / new: above 1, NEW is faster. A row below 0.98 is measured three more times with new tensors, and the median of these three counts. Geometric
means follow for each suite and over all; --summary computes them from the rows of several runs. The exit code is 1 if a case failed on one side only.

--suites takes names of suites or of the functions in peers.py that yield them, and `rungs` and `variants`. `compile` and `launch`, which run only if
named, are those of `tegula bench`: the compile time of kernels, which needs neither a GPU nor PyTorch, and the host time of a launch. --old-env and --new-env set variables of
one side (TEGULA_BACKEND=nvrtc, TEGULA_PLAN=..), so that one pack can be compared with itself. The disk cache is off, because it does not distinguish builds.
Run from the repository root; needs PyTorch except for `compile` and `launch`.
"""
import argparse
import json
import math
import os
import pathlib
import random
import re
import selectors
import statistics
import subprocess
import sys
import time

WORKER = pathlib.Path(__file__).with_name("compare_worker.py")
LEAST_RATIO, REPEATS = 0.98, 3
HOST_SUITES = ("compile", "launch")
STEADY, WARM_S, MOST_WARM_S = 0.01, 0.25, 8.0


class SideFailed(Exception):
    """A request that failed on some sides; maps the names of the sides to the reasons."""

    def __init__(self, reasons):
        super().__init__(reasons)
        self.reasons = reasons


class Side:
    """A worker process, started at the first request and restarted after it is lost."""

    def __init__(self, name, command, environment, timeout_s):
        self.name, self.command, self.environment, self.timeout_s = name, command, environment, timeout_s
        self.process = None

    def tell(self, **command):
        if self.process is None:
            self.process = subprocess.Popen(self.command, env=self.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        try:
            self.process.stdin.write(json.dumps(command) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            self.lose("its process has ended")

    def hear(self):
        with selectors.DefaultSelector() as ready:
            ready.register(self.process.stdout, selectors.EVENT_READ)
            if not ready.select(self.timeout_s):
                self.lose(f"no answer in {self.timeout_s} s")
        line = self.process.stdout.readline()
        if not line:
            self.lose(f"its process ended with {self.process.wait()}")
        answer = json.loads(line)
        if answer.get("fatal"):
            self.lose(answer["error"])
        if "error" in answer:
            raise SideFailed({self.name: answer["error"]})
        return answer

    def ask(self, **command):
        self.tell(**command)
        return self.hear()

    def lose(self, why):
        self.close()
        raise SideFailed({self.name: why})

    def close(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            for pipe in (self.process.stdin, self.process.stdout):
                try:
                    pipe.close()
                except BrokenPipeError:
                    pass
        self.process = None


def ask_both(sides, **command):
    """Returns answers by the names of the sides. Both sides run at the same time, so the requests must not time anything."""
    answers, reasons = {}, {}
    for step in (lambda side: side.tell(**command), lambda side: answers.update({side.name: side.hear()})):
        for side in sides:
            try:
                if side.name not in reasons:
                    step(side)
            except SideFailed as problem:
                reasons |= problem.reasons
    if reasons:
        raise SideFailed(reasons)
    return answers


def warm(sides):
    """Alternates between the sides until no side's mean differs by more than 1 % from the previous one."""
    before, begin = {}, time.monotonic()
    while time.monotonic() - begin < MOST_WARM_S:
        now = {side.name: side.ask(do="warm", seconds=WARM_S)["ms"] for side in sides}
        if before and all(abs(now[name] / before[name] - 1) <= STEADY for name in now):
            return True
        before = now
    return False


def spread_of(old, new):
    """Returns half the interquartile range of the rounds' ratios."""
    ratios = [a / b for a, b in zip(old, new)]
    quarters = statistics.quantiles(ratios, n=4) if len(ratios) > 1 else [1, 1, 1]
    return round((quarters[2] - quarters[0]) / 2, 4)


def measure(sides, dice, rounds, samples):
    """Returns the median of each side, their ratio, and half the interquartile range of the rounds' ratios."""
    is_steady = warm(sides)
    times = {side.name: [] for side in sides}
    for _ in range(rounds):
        for side in dice.sample(sides, len(sides)):
            times[side.name].append(side.ask(do="time", samples=samples)["ms"])
    medians = {name: statistics.median(ms for visit in visits for ms in visit) for name, visits in times.items()}
    row = {"old_ms": round(medians["old"], 6), "new_ms": round(medians["new"], 6), "ratio": round(medians["old"] / medians["new"], 4)}
    return {**row, "spread": spread_of(*(map(statistics.median, times[name]) for name in ("old", "new"))), "is_steady": is_steady}


def make(sides, suite, case):
    """Returns the answers of both sides for a case; None if it is not a case of the library."""
    answers = ask_both(sides, do="make", suite=suite, case=case)
    return None if any(a.get("absent") for a in answers.values()) else answers


def row_of(sides, suite, case, dice, options):
    """Returns a row, or None if the case does not call the library."""
    row = {"suite": suite, "case": case}
    try:
        made = make(sides, suite, case)
        if made is None:
            return None
        found = measure(sides, dice, options.rounds, options.samples)
        if found["ratio"] < LEAST_RATIO:
            again = []
            for _ in range(REPEATS):
                make(sides, suite, case)
                again.append(measure(sides, dice, options.rounds, options.samples))
            first = found["ratio"]
            found = sorted(again, key=lambda one: one["ratio"])[REPEATS // 2]
            found |= {"first_ratio": first, "ratios": [one["ratio"] for one in again]}
        clocks = {f"{side.name}_{key}": value for side in sides for key, value in side.ask(do="clock").items()}
        return {**row, **found, "same_bits": made["old"]["bits"] == made["new"]["bits"], **clocks}
    except SideFailed as problem:
        return {**row, "errors": problem.reasons}


def parts_of(line):
    """Returns the case of a line of `tegula bench` and the milliseconds of its parts, whose sum is the time of a compilation or a launch."""
    if line["suite"] == "launch":
        return line["case"], {"launch": line["tegula_us"] / 1000}
    return f"{line['case']} {line['backend']}", {verb: line[f"{verb}_ms"] for verb in ("trace", "passes", "emit", "assemble")}


def host_rows(sides, suite, dice, rounds):
    """Returns one row of medians per case; the first round warms up."""
    times = {}
    for number in range(rounds + 1):
        for side in dice.sample(sides, len(sides)):
            lines = side.ask(do="figures", suite=suite)["lines"]
            for case, parts in map(parts_of, lines if number > 0 else []):
                times.setdefault(case, {}).setdefault(side.name, []).append(parts)
    for case, taken in times.items():
        of_rounds = {name: [sum(parts.values()) for parts in samples] for name, samples in taken.items()}
        sums = {name: statistics.median(values) for name, values in of_rounds.items()}
        verbs = {f"{name}_{verb}_ms": round(statistics.median(parts[verb] for parts in samples), 4) for name, samples in taken.items() for verb in samples[0]}
        row = {"suite": suite, "case": case, "old_ms": round(sums["old"], 4), "new_ms": round(sums["new"], 4), "ratio": round(sums["old"] / sums["new"], 4)}
        yield {**row, "spread": spread_of(of_rounds["old"], of_rounds["new"]), "is_steady": True, "same_bits": True, **verbs}


def compare_host(sides, suite, dice, options):
    """Measures all cases of a suite together, because `tegula bench` runs them together; repeats slow cases as row_of does."""
    try:
        rows = list(host_rows(sides, suite, dice, options.rounds))
        if any(row["ratio"] < LEAST_RATIO for row in rows):
            again = [list(host_rows(sides, suite, dice, options.rounds)) for _ in range(REPEATS)]
            for number, row in enumerate(rows):
                repeated = sorted((one[number] for one in again), key=lambda one: one["ratio"])
                if row["ratio"] < LEAST_RATIO:
                    rows[number] = {**repeated[REPEATS // 2], "first_ratio": row["ratio"], "ratios": [one[number]["ratio"] for one in again]}
        return rows
    except SideFailed as problem:
        return [{"suite": suite, "case": "all", "errors": problem.reasons}]


def is_wanted(options, group, suite, case):
    suites = options.suites.split(",") if options.suites else []
    return (not suites or suite in suites or group in suites) and re.search(options.filter, f"{suite} {case}")


def selected(cases, options):
    """Returns the wanted cases: at most options.cases of each suite, drawn by the seed."""
    wanted = [(suite, case) for group, suite, case in cases if is_wanted(options, group, suite, case)]
    if not options.cases:
        return wanted
    drawn = random.Random(options.seed)
    suites = {suite: [key for key in wanted if key[0] == suite] for suite, _ in wanted}
    chosen = {key for keys in suites.values() for key in drawn.sample(keys, min(options.cases, len(keys)))}
    return [key for key in wanted if key in chosen]


def text_of(row):
    if "errors" in row:
        return f"{row['suite']:24s} {row['case']:44s} failed: " + "; ".join(f"{side}: {text}" for side, text in row["errors"].items())
    notes = "" if row["same_bits"] else "  results differ"
    notes += "" if row["is_steady"] else "  not steady"
    if "ratios" in row:
        notes += f"  measured again, first {row['first_ratio']:.3f}, then " + ", ".join(f"{r:.3f}" for r in row["ratios"])
    return f"{row['suite']:24s} {row['case']:44s} {row['old_ms']:10.5f} {row['new_ms']:10.5f} {row['ratio']:7.3f} +-{row['spread']:.3f}{notes}"


def geometric_mean(values):
    return math.exp(sum(map(math.log, values)) / len(values))


def summary_of(rows):
    """Returns one row per suite, in order of appearance, and one for all suites."""
    measured = [row for row in rows if "ratio" in row]
    suites = {row["suite"]: [] for row in measured}
    for row in measured:
        suites[row["suite"]].append(row)
    if measured:
        suites["all"] = measured
    for suite, of in suites.items():
        least = min(of, key=lambda row: row["ratio"])
        yield {"summary": suite, "cases": len(of), "geometric_mean": round(geometric_mean([row["ratio"] for row in of]), 4), "least": least["ratio"], "least_case": f"{least['suite']} {least['case']}"}


def print_summary(rows, out=None):
    print(f"\n{'suite':24s} cases  geometric mean of old / new, least")
    for row in summary_of(rows):
        print(f"{row['summary']:24s} {row['cases']:5d} {row['geometric_mean']:8.4f} {row['least']:8.3f}  {row['least_case']}")
        if out:
            out.write(json.dumps(row) + "\n")
    failed = [row for row in rows if "errors" in row]
    for row in failed:
        print(text_of(row))
    return failed


def library_of(pack):
    for folder in (pack / "lib", pack):
        if (folder / "libtegula_bench.so").exists():
            return (folder / "libtegula_bench.so").resolve()
    sys.exit(f"compare: {pack} contains neither libtegula_bench.so nor lib/libtegula_bench.so")


def side_of(name, pack, settings, options, host=False):
    library = library_of(pathlib.Path(pack))
    environment = {**os.environ, "TEGULA_CACHE": "off", "LD_LIBRARY_PATH": f"{library.parent}:{os.environ.get('LD_LIBRARY_PATH', '')}"}
    environment |= dict(setting.split("=", 1) for setting in settings)
    return Side(name, [sys.executable, options.worker, str(library), *(["--host"] if host else [])], environment, options.timeout)


def both_sides(options, host=False):
    return [side_of(name, pack, settings, options, host) for name, pack, settings in zip(("old", "new"), options.packs, (options.old_env, options.new_env))]


def names_of(options):
    return {"old": options.old_name or options.packs[0], "new": options.new_name or options.packs[1], "seed": options.seed}


def keep(row, facts, rows, out):
    rows.append(row)
    print(text_of(row), flush=True)
    if out:
        out.write(json.dumps({**row, **facts}) + "\n")
        out.flush()


def compare(sides, options, rows, out):
    """Returns all rows of the selected cases that both sides have."""
    try:
        answers = ask_both(sides, do="list")
    except SideFailed as problem:
        sys.exit("compare: " + "; ".join(f"{name}: {why}" for name, why in problem.reasons.items()))
    facts = {f"{name}_{key}": value for name, answer in answers.items() for key, value in answer["facts"].items()}
    facts |= names_of(options)
    print(json.dumps(facts), flush=True)
    dice = random.Random(options.seed)
    print(f"{'suite':24s} {'case':44s} {'old ms':>10s} {'new ms':>10s} old/new", flush=True)
    for suite, case in selected(answers["new"]["cases"], options):
        row = row_of(sides, suite, case, dice, options)
        if row is not None:
            keep(row, facts, rows, out)


def arguments():
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("packs", nargs="*", metavar="PACK", help="OLD NEW")
    args.add_argument("--suites", default="", help="comma-separated; default: all")
    args.add_argument("--filter", default="", help="regular expression that 'SUITE CASE' must match")
    args.add_argument("--cases", type=int, default=0, help="maximum number of cases per suite, drawn by --seed; default: all")
    args.add_argument("--rounds", type=int, default=15)
    args.add_argument("--samples", type=int, default=8, help="samples per side and round")
    args.add_argument("--out", help="file to which rows are appended, one JSON line each")
    args.add_argument("--old-env", action="append", default=[], metavar="NAME=VALUE")
    args.add_argument("--new-env", action="append", default=[], metavar="NAME=VALUE")
    args.add_argument("--old-name", default="", help="name of OLD in the rows, such as a commit")
    args.add_argument("--new-name", default="")
    args.add_argument("--seed", type=int, default=1, help="seed of the random order of the sides and of --cases")
    args.add_argument("--timeout", type=float, default=180, help="limit of one answer, in seconds")
    args.add_argument("--worker", default=str(WORKER), help=argparse.SUPPRESS)
    args.add_argument("--summary", nargs="+", metavar="FILE", help="only print the means of the rows in these files")
    options = args.parse_args()
    if bool(options.summary) == bool(options.packs) or len(options.packs) not in (0, 2):
        args.error("either OLD and NEW, or --summary FILE ..")
    return options


def rows_of_files(files):
    """Keeps only the last row of a case that was measured several times."""
    lines = [json.loads(line) for file in files for line in pathlib.Path(file).read_text().splitlines()]
    return list({(row["suite"], row["case"], row.get("new_backend")): row for row in lines if "suite" in row}.values())


def main():
    options = arguments()
    if options.summary:
        return 1 if print_summary(rows_of_files(options.summary)) else 0
    out = open(options.out, "a") if options.out else None
    rows, named = [], options.suites.split(",") if options.suites else []
    host, gpu = both_sides(options, host=True), both_sides(options)
    try:
        for suite in filter(named.__contains__, HOST_SUITES):
            for row in compare_host(host, suite, random.Random(options.seed), options):
                if re.search(options.filter, f"{suite} {row['case']}"):
                    keep(row, names_of(options), rows, out)
        if not named or set(named) - set(HOST_SUITES):
            compare(gpu, options, rows, out)
        failed = print_summary(rows, out)
    finally:
        for side in host + gpu:
            side.close()
        if out:
            out.close()
    return 1 if any(len(row["errors"]) == 1 for row in failed) else 0


if __name__ == "__main__":
    sys.exit(main())
