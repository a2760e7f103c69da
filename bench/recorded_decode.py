#!/usr/bin/env python3
"""Times one query per head, called and replayed from a CUDA graph. The graph is captured as torch.cuda.graph does: in the mode "global", before anything has run on its stream.

    python3 bench/recorded_decode.py [--lib PATH]

Prints a JSON line per case: medians in us with cold L2, and the error of the replayed result against fp64.
"""
import argparse
import json
import statistics

import peers
import torch
from attention_suites import DECODED, decoder_error, decoder_tensors


def recorded(t, tensors):
    stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        run = t.caller("attention_full", tensors)
    with torch.cuda.graph(graph, stream=stream):
        run()
    return graph.replay


def row_of(t, b, h, kv_heads, s, d=128):
    q, k, v, o = decoder_tensors(b, h, kv_heads, s, d)
    tensors = [q, k, v, o, torch.empty(b, h, 1, device="cuda")]
    replay = recorded(t, tensors)
    o.zero_()
    replay()
    torch.cuda.synchronize()
    error = decoder_error(q, k, v, o)
    ways = {"graph": replay, "call": t.caller("attention_full", tensors)}
    ways["call"]()
    times = {way: [] for way in ways}
    for _ in range(40):
        for way, run in ways.items():
            times[way].append(1000 * peers.time_once(run, peers.FLUSH_US))
    return {"case": f"b{b} h{h} kv{kv_heads} keys {s} d{d} bf16", "us": {way: round(statistics.median(us), 2) for way, us in times.items()}, "error": round(error, 5)}


def main():
    args = argparse.ArgumentParser(description=__doc__)
    args.add_argument("--lib", default=".gpu/lib/libtegula_bench.so")
    t = peers.Tegula(args.parse_args().lib)
    torch.manual_seed(0)
    for shape in DECODED:
        print(json.dumps({**row_of(t, *shape), "device": torch.cuda.get_device_name(), "backend": t.lib.tegula_bench_backend().decode()}), flush=True)


if __name__ == "__main__":
    main()
