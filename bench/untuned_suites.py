"""User kernels for bench/peers.py, called without tuning, compared with peers and with the same kernels tuned and with the
first value of each tune(). Only the cost model chooses their values (docs/untuned.md).

    python3 bench/peers.py --lib LIB --filter '^untuned'
"""
import functools
import time

import torch

from row_suites import DEVICE, compiled, error_of

PRODUCTS = [(2048,) * 3, (4096,) * 3, (8192,) * 3, (4096, 14336, 4096), (3000,) * 3, (4104,) * 3, (5000, 3000, 2056), (4096, 4096, 4090)]
FIRST, TUNED, UNTUNED = 0.0, 1.0, 3.0


def case_of(t, case, tensors, peers, want, work):
    run = t.caller(case, tensors, UNTUNED)
    begin = time.perf_counter()
    run()
    torch.cuda.synchronize()
    first_ms = (time.perf_counter() - begin) * 1000  # with compilation
    error = error_of(tensors[-1], want())
    ours = {"ours_first": t.caller(case, tensors, FIRST), "ours_tuned": t.caller(case, tensors, TUNED)}
    return run, peers | ours, error, work | {"facts": {"first_call_ms": round(first_ms, 1)}}


def product(t, m, n, k):
    a, b = (torch.randn(*shape, device=DEVICE).to(torch.bfloat16) for shape in ((m, k), (k, n)))
    c, out = torch.empty(m, n, device=DEVICE, dtype=torch.bfloat16), torch.empty(m, n, device=DEVICE, dtype=torch.bfloat16)
    peers = {"cublas": functools.partial(torch.matmul, a, b, out=out)}
    return case_of(t, "eight_lines", [a, b, c], peers, lambda: a.float() @ b.float(), {"flops": 2 * m * n * k})


def column_sum(t, rows, columns, dtype):
    x, y = torch.randn(rows, columns, device=DEVICE).to(dtype), torch.empty(columns, device=DEVICE)
    total = lambda a: torch.sum(a, 0, dtype=torch.float32)
    peers = {"torch": lambda: total(x), "torch.compile": compiled(total, x)}
    return case_of(t, "user_column_sum", [x, y], peers, lambda: x.double().sum(0), {"bytes": x.numel() * x.element_size()})


def softmax(t, rows, columns):
    x = torch.randn(rows, columns, device=DEVICE).to(torch.bfloat16)
    y = torch.empty_like(x)
    peers = {"torch": lambda: torch.softmax(x, -1), "torch.compile": compiled(lambda a: torch.softmax(a, -1), x)}
    return case_of(t, "user_softmax", [x, y], peers, lambda: torch.softmax(x.double(), -1), {"bytes": 4 * x.numel()})


def untuned(t):
    for m, n, k in PRODUCTS:
        yield "untuned_eight_lines", f"{m}x{n}x{k} bf16", functools.partial(product, t, m, n, k)
    for dtype in (torch.float32, torch.bfloat16):
        yield "untuned_column_sum", f"8192x8192 {str(dtype)[6:]}", functools.partial(column_sum, t, 8192, 8192, dtype)
    for columns in (1000, 4096, 16384):
        yield "untuned_softmax", f"4096x{columns} bf16", functools.partial(softmax, t, 4096, columns)


SUITES = [untuned]
