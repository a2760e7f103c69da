#!/usr/bin/env python3
"""Compares the choices of nvMatmulHeuristics with our model's, for the GEMMs of an audit.

    pip install nvidia-matmul-heuristics
    python3 bench/nv_heuristics.py [--audit FILE.jsonl] [--gpu H200_SXM] [--count 12] [--out FILE.jsonl]

Needs no GPU: the package describes one, and the audit (`tegula audit -o`) has our first choices, with estimates, and measured times. Prints one line per
GEMM: the first choice of each model, whether their tile is among our first ones and ours among theirs, the ratio of the fastest configuration
with their tile to the audit's best, and the rank correlation of each model's estimates with the measured times, as ratios to the default's time in
the same round. Tiles are those of C, whichever operand is in registers; a tile that the audit did not measure has the time "-".
"""
import argparse
import ctypes
import json
import pathlib
import sys

AUDIT = pathlib.Path(__file__).parent / "results/sweeps/2026-11-26-h200-audit.jsonl"
FIRST = 12  # number of configurations that the model offers to a tuner
PRECISION = "TST"  # bf16 operands, f32 sums, bf16 result


def fields(text):
    return dict(word.split("=") for word in text.split())


def audits(path):
    """Returns the largest audit of each GEMM: problem, configurations in the model's order, the model's first ones."""
    largest = {}
    for line in open(path):
        row = json.loads(line)
        if row["family"] == "matmul" and len(row["configs"]) > len(largest.get(row["problem"], {"configs": ()})["configs"]):
            largest[row["problem"]] = row
    for row in largest.values():
        configs = [{**fields(c["config"]), "ratio": c["ratio"], "estimate_us": c["estimate_us"]} for c in row["configs"] if c["ratio"] > 0]
        yield row["shape"], {k: int(v) if v.isdigit() else v for k, v in fields(row["problem"]).items()}, configs, configs[: min(FIRST, row["inside"])]


def tile(config):
    return int(config["bm"]), int(config["bn"]), int(config["bk"])


def cluster(config):
    """Returns CTAs along the rows and columns of C, and slices of k: ours share columns of B, or divide k."""
    return (2 if config["multicast"] == "b" else 1, 1), int(config["parts"])


def ranks(values):
    order = sorted(range(len(values)), key=values.__getitem__)
    out = [0.0] * len(values)
    begin = 0
    while begin < len(order):
        end = begin
        while end < len(order) and values[order[end]] == values[order[begin]]:
            end += 1
        for i in order[begin:end]:
            out[i] = (begin + end - 1) / 2
        begin = end
    return out


def correlation(a, b):
    """Returns Spearman's rank correlation, with ties."""
    x, y = ranks(a), ranks(b)
    mean = (len(x) - 1) / 2
    both = sum((p - mean) * (q - mean) for p, q in zip(x, y))
    norm = (sum((p - mean) ** 2 for p in x) * sum((q - mean) ** 2 for q in y)) ** 0.5
    return both / norm if norm > 0 else 0.0


class Heuristics:
    """The package, for one GPU model."""

    def __init__(self, nv, gpu):
        self.nv = nv
        self.all = nv.NvMatmulHeuristicsInterface(nv.NvMatmulHeuristicsTarget.CUTLASS3, precision=PRECISION, flags=nv.NvMatmulHeuristicsFlags.PERF_MODEL_BASED_AUTO_TUNING)
        self.hardware = self.all.createHardwareDescriptor()
        self.all.setHardwarePredefinedGpu(self.hardware, nv.NvMatmulHeuristicsNvidiaGpu[gpu])
        self.layouts = {False: nv.NvMatmulHeuristicsMatmulLayout.NN_ROW_MAJOR, True: nv.NvMatmulHeuristicsMatmulLayout.NT_ROW_MAJOR}
        for layout in self.layouts.values():
            self.all.loadInternalDiscoverySet(layout, self.hardware)

    def problem(self, p):
        return self.all.makeNvMatmulHeuristicsProblem(p["m"], p["n"], p["k"], self.layouts[p["b_k_major"] == 1], p["batch"])

    def choices(self, p, count):
        return [{"tile": (c.cta_tile_m, c.cta_tile_n, c.cta_tile_k), "cluster": (c.cluster_m, c.cluster_n), "parts": c.split_k, "stages": c.stages, "us": 1e6 * found["runtime"]}
                for found in self.all.get(self.problem(p), count, self.hardware) for c in [found["kernel"]]]

    def estimate(self, p, config):
        """Returns the package's estimate of one of our configurations, with warpgroups of 64 rows and all columns where its text does not state them."""
        kernel = self.all.nvmmhKernelConfiguration()
        bm, bn, bk = tile(config)
        (cluster_m, cluster_n), parts = cluster(config)
        rows, columns = (bn, bm) if config["swap_ab"] == "1" else (bm, bn)
        kernel.cta[:], kernel.warp[:], kernel.instr[:] = (bm, bn, bk), (64, max(columns // 4, 8), bk), (64, 8, 16)
        if rows != bm:
            kernel.warp[:] = (max(columns // 4, 8), 64, bk)
        kernel.splitK, kernel.loadStages, kernel.gridSwizzle, kernel.ctaOrder = parts, int(config["stages"]) or 4, 1, 0
        kernel.cluster[:] = (cluster_m, cluster_n)
        return 1e6 * self.all.nvMatmulHeuristicsEstimateRuntime(
            self.all.handle, PRECISION.encode(), ctypes.c_int(self.all.target), ctypes.byref(self.problem(p)), ctypes.byref(kernel), self.hardware)


def row_of(shape, problem, configs, first, heuristics, count):
    theirs = heuristics.choices(problem, count)
    fastest = min(configs, key=lambda c: c["ratio"])
    of_tile = [c["ratio"] for c in configs if tile(c) == theirs[0]["tile"]]
    measured = [c["ratio"] for c in configs]
    return {
        "shape": shape,
        "ours": {"tile": tile(first[0]), "cluster": cluster(first[0])[0], "parts": cluster(first[0])[1]},
        "theirs": theirs[0],
        "same_tile": tile(first[0]) == theirs[0]["tile"],
        "same_cluster": cluster(first[0]) == (theirs[0]["cluster"], theirs[0]["parts"]),
        "their_tile_in_our_first": theirs[0]["tile"] in [tile(c) for c in first],
        "our_tile_in_their_first": tile(first[0]) in [c["tile"] for c in theirs],
        "fastest_tile_in_their_first": tile(fastest) in [c["tile"] for c in theirs],
        "fastest_tile_in_our_first": tile(fastest) in [tile(c) for c in first],
        "their_tile_over_best": round(min(of_tile) / fastest["ratio"], 3) if of_tile else None,
        "our_choice_over_best": round(first[0]["ratio"] / fastest["ratio"], 3),
        "our_correlation": round(correlation([c["estimate_us"] for c in configs], measured), 2),
        "their_correlation": round(correlation([heuristics.estimate(problem, c) for c in configs], measured), 2),
    }


def text_of(row):
    def name(choice):
        return "x".join(map(str, choice["tile"])) + f" cluster {choice['cluster'][0]}x{choice['cluster'][1]}" + (f" parts {choice['parts']}" if choice["parts"] > 1 else "")

    over = row["their_tile_over_best"]
    return (f"| {row['shape']} | {name(row['ours'])} | {name(row['theirs'])} | {'yes' if row['their_tile_in_our_first'] else 'no'} | {'yes' if row['our_tile_in_their_first'] else 'no'} "
            f"| {row['our_choice_over_best']:.2f} | {'-' if over is None else f'{over:.2f}'} | {row['our_correlation']:.2f}, {row['their_correlation']:.2f} |")


def main():
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("--audit", default=AUDIT)
    args.add_argument("--gpu", default="H200_SXM")
    args.add_argument("--count", type=int, default=FIRST)
    args.add_argument("--out")
    options = args.parse_args()
    try:
        import nvMatmulHeuristics as nv
    except ImportError:
        sys.exit("nvMatmulHeuristics is not installed: pip install nvidia-matmul-heuristics")
    heuristics = Heuristics(nv, options.gpu)
    rows = [row_of(*audit, heuristics, options.count) for audit in audits(options.audit)]
    heuristics.all.handle = None  # its destructor crashes
    print("| product | ours | theirs | theirs in our first | ours in theirs | ours over the best | their tile over the best | rank correlation: ours, theirs |")
    print("|---|---|---|---|---|---|---|---|")
    for row in rows:
        print(text_of(row))
    for what in ("same_tile", "same_cluster", "their_tile_in_our_first", "our_tile_in_their_first", "fastest_tile_in_our_first", "fastest_tile_in_their_first"):
        print(f"{what}: {sum(row[what] for row in rows)} of {len(rows)}")
    for what in ("our_correlation", "their_correlation"):
        print(f"{what}, mean: {sum(row[what] for row in rows) / len(rows):.2f}")
    if options.out:
        with open(options.out, "w") as out:
            for row in rows:
                print(json.dumps({**row, "gpu": options.gpu, "audit": pathlib.Path(options.audit).name}), file=out)


if __name__ == "__main__":
    main()
