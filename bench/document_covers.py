#!/usr/bin/env python3
"""Counts the pairs that attention computes for consecutive causal documents with other tile sizes, relative to the best cover by 64 x 8 blocks.

    python3 bench/document_covers.py [POSITIONS DOCUMENTS]

Needs no GPU. Prints means over 40 random cuts. Tiles begin at multiples of their rows, or at each document's first position ("own tiles"); kv blocks begin at multiples of their keys, or
at the first key that is visible to the tile, rounded down to 8 ("own steps").
"""
import random
import statistics
import sys

SEEDS, GRANULE = 40, 8


def documents(s, count, seed):
    cuts = sorted(random.Random(seed).sample(range(1, s), count - 1))
    return list(zip([0, *cuts], [*cuts, s]))


def first_keys(ends):
    return [begin for begin, end in ends for _ in range(begin, end)]


def pairs(firsts, rows, keys, own_steps=False):
    total = 0
    for row in range(0, len(firsts), rows):
        unit = GRANULE if own_steps else keys
        first = firsts[row] // unit * unit
        total += rows * keys * -(-(row + rows - first) // keys)
    return total


def pairs_of_own_tiles(ends, rows, keys):
    lengths = [end - begin for begin, end in ends]
    return sum(rows * keys * -(-min(tile + rows, n) // keys) for n in lengths for tile in range(0, n, rows))


def over_best(s, count, seed):
    ends = documents(s, count, seed)
    firsts = first_keys(ends)
    ways = {f"{r} x {k}": pairs(firsts, r, k) for r, k in ((128, 128), (128, 64), (64, 128), (64, 64), (64, 32))}
    ways |= {f"{r} x {k}, own steps": pairs(firsts, r, k, own_steps=True) for r, k in ((128, 128), (64, 128), (64, 64))}
    ways |= {f"{r} x {k}, own tiles": pairs_of_own_tiles(ends, r, k) for r, k in ((128, 128), (64, 64))}
    best = pairs(firsts, 64, GRANULE)
    return {way: n / best for way, n in ways.items()}


def main():
    s, count = (int(x) for x in sys.argv[1:3] or (4096, 12))
    found = [over_best(s, count, seed) for seed in range(SEEDS)]
    for way in found[0]:
        print(f"{way:22s} {statistics.mean(f[way] for f in found):.3f}")


if __name__ == "__main__":
    main()
