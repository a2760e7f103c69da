#!/usr/bin/env python3
"""Measures ratios to peers. All published ratios come from this program.

Loads libtegula_bench.so, gives both sides the same tensors and stream, checks values, warms up until the clock is steady, then
alternates ours and the peer under one timer (CUDA events, cold L2) and prints one JSON line per case with medians, clock and
power. Run from the repository root on a machine with PyTorch:

    python3 bench/peers.py [--lib PATH] [--filter RE] [--out bench/results/FILE.jsonl]
"""
import argparse
import ctypes
import functools
import itertools
import json
import random
import re
import statistics
import subprocess
import sys
import time

import attention_suites
import backward_suites
import flash_peers
import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

import device_suites
import grouped_suites
import matmul_suites
import moe_suites
import row_suites
import serving_suites
import triton_suites
import untuned_suites

DEVICE = torch.device("cuda:0")
ENDS = [0, -1]


class Pairs(ctypes.Structure):
    """TegulaBenchPairs."""

    _fields_ = [(name, ctypes.c_int64) for name in ("kept", "computed", "cover", "tile_queries", "tile_keys")]


class Tegula:
    """The C interface of bench/bench.h."""

    def __init__(self, path):
        self.lib = ctypes.CDLL(path)
        self.lib.tegula_bench_run.argtypes = [ctypes.c_char_p, ctypes.POINTER(ctypes.c_void_p), ctypes.c_int, ctypes.c_void_p, ctypes.c_double]
        self.lib.tegula_bench_pairs.argtypes = [ctypes.c_char_p, ctypes.POINTER(ctypes.c_void_p), ctypes.c_int, ctypes.c_double, ctypes.POINTER(Pairs)]
        self.lib.tegula_bench_tune.argtypes = [ctypes.c_char_p, ctypes.POINTER(ctypes.c_void_p), ctypes.c_int, ctypes.c_void_p, ctypes.c_double, ctypes.c_int, ctypes.c_int]
        for name in ("error", "compile", "launch", "backend", "tune"):
            getattr(self.lib, f"tegula_bench_{name}").restype = ctypes.c_char_p
        self.pointer = ctypes.pythonapi.PyCapsule_GetPointer
        self.pointer.restype = ctypes.c_void_p
        self.pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]

    def borrow(self, tensors):
        """Returns capsules, and pointers to their contents, valid while the capsules live."""
        capsules = [torch.utils.dlpack.to_dlpack(t) for t in tensors]
        return capsules, (ctypes.c_void_p * len(tensors))(*[self.pointer(c, b"dltensor") for c in capsules])

    def pairs(self, case, tensors, number=0.0):
        """Returns the pairs of one head that an attention case keeps, that it computes, and those of the best cover, and its tiles."""
        torch.cuda.synchronize()  # tables are read on a stream of the library
        capsules, pointers = self.borrow(tensors)
        found = Pairs()
        if self.lib.tegula_bench_pairs(case.encode(), pointers, len(tensors), number, ctypes.byref(found)) != 0:
            raise RuntimeError(self.lib.tegula_bench_error().decode())
        del capsules
        return found

    def tune(self, case, capsules, number=0.0, full=False, any_bits=True):
        """Tunes the decisions of the case's calls on the tensors of a caller's capsules; returns a dictionary per decision."""
        pointers = (ctypes.c_void_p * len(capsules))(*[self.pointer(c, b"dltensor") for c in capsules])
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        text = self.lib.tegula_bench_tune(case.encode(), pointers, len(capsules), stream, number, int(full), int(any_bits))
        if text is None:
            raise RuntimeError(self.lib.tegula_bench_error().decode())
        return [json.loads(line) for line in text.decode().splitlines()]

    def schedule_words(self, requests):
        """Returns the elements of a work list for paged attention on GPU 0."""
        words = self.lib.tegula_bench_schedule_words
        words.argtypes, words.restype = [ctypes.c_int64], ctypes.c_int64
        found = words(requests)
        if found < 0:
            raise RuntimeError(self.lib.tegula_bench_error().decode())
        return found

    def run_once(self, case, tensors, number=0.0):
        """Runs a case that prepares another one; bench/compare.py, which replaces `caller`, does not measure it."""
        Tegula.caller(self, case, tensors, number)()

    def caller(self, case, tensors, number=0.0):
        """Returns a function without arguments that runs the case on the current stream."""
        capsules, pointers = self.borrow(tensors)
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        name = case.encode()

        def run():
            if self.lib.tegula_bench_run(name, pointers, len(tensors), stream, number) != 0:
                raise RuntimeError(self.lib.tegula_bench_error().decode())

        run.capsules = capsules  # keeps the capsules alive with the function
        return run


class Power:
    """Records clock and power of the GPU while something runs."""

    def read(self):
        out = subprocess.run(["nvidia-smi", "--query-gpu=clocks.sm,power.draw", "--format=csv,noheader,nounits"], capture_output=True, text=True)
        clock, watts = out.stdout.strip().split("\n")[0].split(",")
        return float(clock), float(watts)


def flush_l2(buffer=[]):
    """Flushes L2 by reading: a fill would leave dirty lines, whose write-back would be timed with the next kernel."""
    if not buffer:
        buffer.append(torch.zeros(64 << 20, dtype=torch.int32, device=DEVICE))
    buffer[0].amax()


CYCLES_PER_US = 1980
FLUSH_US = 50  # time of flush_l2, during which the host already launches
LEAD_US = 300  # after launches of other kernels the host is occasionally slower: 14.5 us of cuBLAS were timed as 31.6


def lead_of(slowest_us):
    """Returns how long the device waits before a sample, by the longest host time of the calls."""
    return max(LEAD_US, 2 * slowest_us)


def host_us(run):
    """Returns the host time of a call, including launches."""
    torch.cuda.synchronize()
    begin = time.perf_counter()
    run()
    taken = time.perf_counter() - begin
    torch.cuda.synchronize()
    return 1e6 * taken


def time_once(run, lead_us=0):
    """Returns the device time of a call in ms. The device first waits `lead_us`, so that the host has launched everything before."""
    flush_l2()
    if lead_us > 0:
        torch.cuda._sleep(int(lead_us * CYCLES_PER_US))
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    run()
    end.record()
    end.synchronize()
    return start.elapsed_time(end)


def compare(ours, peers, rounds):
    """Returns the median times in ms of ours and of each peer, after at least a second of warm-up. Each round has another order, because
    a GPU at its power cap slows down the kernel that follows one with a high power draw."""
    sides = [ours] + list(peers.values())
    begin = time.time()
    while time.time() - begin < 1.0:
        for run in sides:
            run()
        torch.cuda.synchronize()
    slowest = max(min(host_us(run) for _ in range(3)) for run in sides)
    lead_us = lead_of(slowest)
    samples = [[] for _ in sides]
    power = []
    for i in range(rounds):
        for side in random.sample(range(len(sides)), len(sides)):
            samples[side].append(time_once(sides[side], lead_us))
        if i == rounds // 2:
            for run in sides * 3:
                run()
            power = Power().read()
            torch.cuda.synchronize()
    medians = [statistics.median(s) for s in samples]
    return medians[0], dict(zip(peers, medians[1:])), power


def error_of(got, want):
    return ((got.double() - want.double()).norm() / want.double().norm()).item()


def vector_add(t):
    n = 1 << 28

    def add():
        x, y, z = (torch.randn(n, device=DEVICE) for _ in range(3))
        run = t.caller("vector_add", [x, y, z])
        run()
        out = torch.empty_like(x)
        return run, {"torch.add": lambda: torch.add(x, y, out=out)}, error_of(z, x + y), {"bytes": 12 * n}

    def copy():
        source = torch.randn(n, device=DEVICE)
        out = torch.empty_like(source)
        return (lambda: out.copy_(source)), {}, 0.0, {"bytes": 8 * n}

    yield "vector_add", "2^28 f32", add
    yield "copy", "2^28 f32 (torch copy_)", copy


def reference_attention(q, k, v, rows, causal):
    """Computes some rows of the first and the last head in fp64."""
    q, k, v = (x[:1, ENDS].double() for x in (q, k, v))
    s = (q[:, :, rows] @ k.transpose(-1, -2)) / q.shape[-1] ** 0.5
    if causal:
        at = torch.arange(q.shape[2], device=DEVICE)
        s = s.masked_fill(at[None, :] > at[rows, None], float("-inf"))
    return torch.softmax(s, -1) @ v


def attention(t, name, causal, b, h, s, d, kv_heads=None, dtype=torch.bfloat16):
    kv_heads = kv_heads or h
    q, k, v = (torch.randn(b, heads, s, d, device=DEVICE, dtype=dtype) for heads in (h, kv_heads, kv_heads))
    o, lse = torch.empty_like(q), torch.empty(b, h, s, device=DEVICE)
    run = t.caller(name, [q, k, v, o, lse])
    run()
    # Compares the last rows under a mask, and the first ones without.
    rows = slice(s - 1024, s) if causal else slice(0, 1024)
    want = reference_attention(q, *(x[:1].repeat_interleave(h // kv_heads, 1) for x in (k, v)), rows, causal)

    def peer(backend):
        def call():
            with sdpa_kernel(backend):
                return F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=kv_heads != h)
        return call

    peers = {"cudnn": peer(SDPBackend.CUDNN_ATTENTION), "flash2": peer(SDPBackend.FLASH_ATTENTION), **flash_peers.dense(q, k, v, causal)}
    errors = {"max_err": error_of(o[:1, ENDS][:, :, rows], want)}
    if that_work({"cudnn": peers["cudnn"]}):
        errors["cudnn_err"] = error_of(peers["cudnn"]()[:1, ENDS][:, :, rows], want)
    return run, peers, errors, {"flops": 4 * b * h * s * s * d // (2 if causal else 1)}


def attentions(t):
    for b, h, s, d in ((16, 16, 1024, 128), (4, 16, 4096, 128), (1, 16, 16384, 128), (16, 16, 1024, 64), (4, 16, 4096, 64), (1, 16, 16384, 64), (16, 8, 1024, 256), (4, 8, 4096, 256), (1, 8, 16384, 256)):
        for name, causal in (("attention_full", False), ("attention_causal", True)):
            yield name, f"b{b} h{h} s{s} d{d} bf16", functools.partial(attention, t, name, causal, b, h, s, d)
            if s == 4096:
                yield f"{name}_lazy", f"b{b} h{h} s{s} d{d} bf16", functools.partial(attention, t, f"{name}_lazy", causal, b, h, s, d)


def attention_shapes(t):
    """Yields attention with further head dims, GQA groups and half-precision types."""
    forms = ((16, 16, 96, torch.bfloat16), (16, 16, 192, torch.bfloat16), (32, 8, 128, torch.bfloat16), (32, 1, 128, torch.bfloat16), (16, 16, 128, torch.float16))
    for (h, kv_heads, d, dtype), causal in itertools.product(forms, (False, True)):
        what = f"{'causal' if causal else 'full'} b4 h{h} kv{kv_heads} s4096 d{d} {'f16' if dtype == torch.float16 else 'bf16'}"
        yield "attention_shapes", what, functools.partial(attention, t, "attention_causal" if causal else "attention_full", causal, 4, h, 4096, d, kv_heads, dtype)


SUITES = [vector_add, *row_suites.SUITES, *device_suites.SUITES, attentions, attention_shapes, *attention_suites.SUITES, *backward_suites.SUITES, *matmul_suites.SUITES, *moe_suites.SUITES, *grouped_suites.SUITES, *serving_suites.SUITES, *triton_suites.SUITES, *untuned_suites.SUITES]


def that_work(peers):
    """Returns the peers that support the case; prints the errors of the others."""
    found = {}
    for name, run in peers.items():
        try:
            run()
            torch.cuda.synchronize()
            found[name] = run
        except Exception as problem:  # compilers of peers raise their own exceptions
            print(f"{name}: {str(problem)[:200]}", file=sys.stderr)
    return found


def row_of(name, case, make, rounds):
    made = make()
    if isinstance(made, dict):  # timed in a different way
        clock, watts = Power().read()
        return {"suite": name, "case": case, **made, "clock_mhz": clock, "power_w": watts}
    run, peers, error, work = made
    peers = that_work(peers)
    ms, peer_ms, power = compare(run, peers, rounds)
    errors = error if isinstance(error, dict) else {"max_err": error}
    row = {"suite": name, "case": case, "ms": round(ms, 5), **errors, "clock_mhz": power[0], "power_w": power[1]}
    if "bytes" in work:
        row["gbs"] = round(work["bytes"] / ms / 1e6, 1)
    if "flops" in work:
        row["tflops"] = round(work["flops"] / ms / 1e9, 1)
    if "computed_flops" in work:
        row["computed_tflops"] = round(work["computed_flops"] / ms / 1e9, 1)
    row.update(work.get("facts", {}))
    for peer, value in peer_ms.items():
        row[f"{peer}_ms"] = round(value, 5)
        row[f"ratio_{peer}"] = round(value / ms, 4)
    return row


def main():
    args = argparse.ArgumentParser(description=__doc__)
    args.add_argument("--lib", default=".gpu/lib/libtegula_bench.so")
    args.add_argument("--filter", default="")
    args.add_argument("--out")
    args.add_argument("--rounds", type=int, default=30)
    args.add_argument("--commit", default="")
    args.add_argument("--part", default="0/1", help="I/N: each N-th case from the I-th on, for a machine with N GPUs")
    args.add_argument("--ladder", action="store_true", help="the rungs of bench/ladder.def only")
    options = args.parse_args()
    tegula = Tegula(options.lib)
    out = open(options.out, "a") if options.out else sys.stdout
    facts = {"device": torch.cuda.get_device_name(), "torch": torch.__version__, "backend": tegula.lib.tegula_bench_backend().decode(), "commit": options.commit, "l2": "clean", "host": "hidden"}

    def emit(row):
        print(json.dumps(row), file=out, flush=True)
        if out is not sys.stdout:
            print(json.dumps(row), flush=True)

    empty = torch.empty(1, device=DEVICE)
    emit({"suite": "floor", "case": "empty launch between events (fill of one element)", "ms": statistics.median(time_once(lambda: empty.zero_()) for _ in range(20)), **facts})
    part, parts = map(int, options.part.split("/"))
    suites = [matmul_suites.rungs] if options.ladder else SUITES
    cases = [made for suite in suites for made in suite(tegula) if re.search(options.filter, f"{made[0]} {made[1]}")]
    for name, case, make in cases[part::parts]:
        try:
            emit({**row_of(name, case, make, options.rounds), **facts})
        except Exception as problem:  # one broken case must not lose the rows of others
            emit({"suite": name, "case": case, "error": str(problem)[:2000], **facts})
        torch.cuda.empty_cache()
    if not options.filter and not options.ladder and part == 0:
        for line in (tegula.lib.tegula_bench_launch(200).decode() + "\n" + tegula.lib.tegula_bench_compile(5).decode()).splitlines():
            if line.startswith("{"):
                emit({**facts, **json.loads(line)})
            elif line:
                print(line)


if __name__ == "__main__":
    main()
