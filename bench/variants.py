#!/usr/bin/env python3
"""Times our kernels only, with one library and one plan per process, to compare variants of the compiler.

    for round in 1 2; do LD_LIBRARY_PATH=OLD python3 bench/variants.py --lib OLD/libtegula_bench.so; TEGULA_PLAN=.. python3 bench/variants.py; done

Each case runs alone until it is steady, with cold L2: the clock depends on a kernel's power, so interleaved cases would share a clock. Prints the case, its median in us, and the sum of its
result, which shows whether two variants computed the same.

--cycles (LLVM's PTX only, attention or products) also prints the mean and maximum clocks of the CTAs, and the clock rate. The power cap moves that
rate between 1.4 and 1.8 GHz within seconds, whatever nvidia-smi reports; cycles are the same in every run.
"""
import argparse
import functools
import os
import re
import statistics
import time

import attention_suites
import peers
import probing_ptxas
import torch

DEVICE = torch.device("cuda:0")


class Spans:
    """Clocks of the CTAs of a launch. Made before the library is opened, which reads its environment once."""

    def __init__(self):
        self.spans = torch.zeros(probing_ptxas.SPANS, 4, dtype=torch.int64, device=DEVICE)
        os.environ.update(PROBE_BASE=hex(self.spans.data_ptr()), PROBE_SPANS="1", PROBE_KERNEL="attention|matmul.*", TEGULA_PTXAS=probing_ptxas.__file__, TEGULA_CACHE="off")

    def text(self, run):
        self.spans.zero_()
        run()
        torch.cuda.synchronize()
        begin_ns, begin, end_ns, end = self.spans[self.spans[:, 2] > 0].t()
        cycles, ns = (end - begin).double(), (end_ns - begin_ns).double()
        return f"{cycles.mean().item():10.0f} cycles, at most {cycles.max().item():.0f}, {1000 * (cycles / ns).mean().item():.0f} MHz"


def random_of(*shape):
    return torch.randn(*shape, device=DEVICE, dtype=torch.bfloat16)


def attention(t, name, b, h, s, d):
    tensors = [*(random_of(b, h, s, d) for _ in range(4)), torch.empty(b, h, s, device=DEVICE)]
    tables = attention_suites.document_tables(s, attention_suites.DOCUMENTS) if name == "document" else ()
    number = {"window": attention_suites.WINDOW, "prefix": s // 4, "softcap_causal": attention_suites.CAP, "softcap_approx_causal": attention_suites.CAP}.get(name, 0.0)
    return t.caller("attention_" + name, [*tensors, *tables], number), tensors[3]


def product(t, case, m, n, k):
    tensors = [random_of(m, k), random_of(k, n), random_of(m, n)]
    if case != "matmul":
        tensors += [random_of(n), random_of(m, n)]
    return t.caller(case, tensors), tensors[2]


def cases(t):
    for b, h, s, d in ((16, 16, 1024, 128), (4, 16, 4096, 128), (16, 16, 1024, 64), (4, 16, 4096, 64), (4, 8, 4096, 256), (1, 16, 16384, 128), (1, 16, 16384, 64)):
        for name in ("full", "causal"):
            yield f"{name} s{s} d{d}", functools.partial(attention, t, name, b, h, s, d)
    for name in ("window", "prefix", "document", "alibi_causal", "softcap_causal", "softcap_approx_causal"):
        yield f"{name} s4096 d128", functools.partial(attention, t, name, 4, 16, 4096, 128)
    for s, d in ((16384, 128), (4096, 64), (16384, 64)):
        yield f"alibi_causal s{s} d{d}", functools.partial(attention, t, "alibi_causal", 16384 // s, 16, s, d)
    yield "document s16384 d128", functools.partial(attention, t, "document", 1, 16, 16384, 128)
    for m, n, k in ((8192, 8192, 8192), (4096, 4096, 4096), (2048, 2048, 2048), (1000, 2056, 1096), (8192, 128, 8192)):
        yield f"matmul {m}x{n}x{k}", functools.partial(product, t, "matmul", m, n, k)
    for m, n, k in ((4096, 4096, 4096), (8192, 4096, 2048), (8192, 8192, 1024)):
        yield f"gelu {m}x{n}x{k}", functools.partial(product, t, "matmul_bias_gelu_residual", m, n, k)


def steady_us(run):
    begin = time.time()
    while time.time() - begin < 0.35:
        for _ in range(8):
            run()
        torch.cuda.synchronize()
    return 1000 * statistics.median(peers.time_once(run, peers.FLUSH_US) for _ in range(25))


def main():
    args = argparse.ArgumentParser(description=__doc__)
    args.add_argument("filter", nargs="?", default="")
    args.add_argument("--lib", default=".gpu/lib/libtegula_bench.so")
    args.add_argument("--cycles", action="store_true")
    options = args.parse_args()
    spans = Spans() if options.cycles else None
    torch.manual_seed(0)
    for name, make in cases(peers.Tegula(options.lib)):
        if not re.search(options.filter, name):
            continue
        run, result = make()
        run()
        total = result.double().abs().sum().item()
        print(f"{name:26s} {steady_us(run):9.1f}  {total:.6g}", spans.text(run) if spans else "", flush=True)


if __name__ == "__main__":
    main()
