"""Kernels of whole arrays for bench/peers.py: scan, compaction, segment sums, searchsorted, histogram, sort, top-k and log-space matmul,
with PyTorch (CUB) and a copy as peers. The copy moves as many bytes as a kernel that reads its input and writes its result once.

A suite yields (name, case, make); make() gives (ours, peers, error, work).
"""
import functools

import torch

from row_suites import BF16, DEVICE, F32, case_of, compiled, named, normal

I32, I64 = torch.int32, torch.int64


def scan(t, case, n, dtype):
    x = torch.randint(-8, 8, (n,), device=DEVICE, dtype=I32) if dtype == I32 else normal(n, dtype=dtype)
    y, out = torch.empty_like(x), torch.empty_like(x)
    peers = {"torch.cumsum": lambda: torch.cumsum(x, 0, dtype=dtype, out=out)}
    return case_of(t.caller(case, [x, y]), peers, [(y, lambda: torch.cumsum(x.double(), 0))], [x, y])


def select(t, n, dtype, share):
    x, keep = normal(n, dtype=dtype), torch.rand(n, device=DEVICE) < share
    y, count = torch.zeros_like(x), torch.empty(1, device=DEVICE, dtype=I32)
    want = functools.cache(lambda: torch.masked_select(x, keep))
    kept = want().numel()
    peers = {"torch.masked_select": lambda: torch.masked_select(x, keep)}
    return case_of(t.caller("device_select", [x, keep, y, count]), peers, [(y[:kept], want)], [x, keep, y[:kept]])


def segment_sum(t, segments, mean, columns):
    lengths = torch.randint(0, 2 * mean + 1, (segments,), device=DEVICE)
    offsets = torch.cat((torch.zeros(1, device=DEVICE, dtype=I64), lengths.cumsum(0)))
    n, narrow = int(offsets[-1]), offsets.to(I32)
    x = normal(n, *columns, dtype=F32)
    y = torch.empty(segments, *columns, device=DEVICE)
    peers = {"torch.segment_reduce": lambda: torch.segment_reduce(x, "sum", offsets=offsets)}
    want = lambda: torch.segment_reduce(x.double(), "sum", offsets=offsets)
    return case_of(t.caller("device_segment_sum", [x, narrow, y]), peers, [(y, want)], [x, y])


def searchsorted(t, n, m):
    held, values = normal(n, dtype=F32).sort().values, normal(m, dtype=F32)
    y, out = torch.empty(m, device=DEVICE, dtype=I32), torch.empty(m, device=DEVICE, dtype=I32)
    peers = {"torch.searchsorted": lambda: torch.searchsorted(held, values, out_int32=True, out=out)}
    return case_of(t.caller("device_searchsorted", [held, values, y]), peers, [(y, lambda: torch.searchsorted(held, values))], [held, values, y])


def histogram(t, n, bins, skewed):
    keys = torch.randint(bins, (n,), device=DEVICE, dtype=I32)
    if skewed:
        keys = torch.where(torch.rand(n, device=DEVICE) < 0.5, 3 % bins, keys)
    counts = torch.empty(bins, device=DEVICE, dtype=I32)
    peers = {"torch.bincount": lambda: torch.bincount(keys, minlength=bins)}
    if bins <= 4096:
        floats = keys.float()
        peers["torch.histc"] = lambda: torch.histc(floats, bins, -0.5, bins - 0.5)
    return case_of(t.caller("device_histogram", [keys, counts]), peers, [(counts, lambda: torch.bincount(keys, minlength=bins))], [keys])


def sort(t, n, dtype, has_places):
    keys = torch.randint(-(1 << 31), 1 << 31, (n,), device=DEVICE, dtype=I32) if dtype == I32 else normal(n, dtype=dtype)
    y, places = torch.empty_like(keys), torch.empty(n, device=DEVICE, dtype=I32)
    # torch.sort always returns the indices, too, as 64-bit integers.
    peers = {"torch.sort": lambda: torch.sort(keys, stable=True)}
    tensors = [keys, y, places] if has_places else [keys, y]
    want = functools.cache(lambda: torch.sort(keys, stable=True))
    pairs = [(y, lambda: want().values)] + ([(places, lambda: want().indices)] if has_places else [])
    return case_of(t.caller("device_sort", tensors), peers, pairs, tensors[: 2 + has_places])


def topk(t, rows, n, k, dtype):
    x = normal(rows, n, dtype=dtype)
    y, places = torch.empty(rows, k, device=DEVICE, dtype=dtype), torch.empty(rows, k, device=DEVICE, dtype=I32)
    peers = {"torch.topk": lambda: torch.topk(x, k)}
    return case_of(t.caller("device_topk", [x, y, places]), peers, [(y, lambda: torch.topk(x, k).values)], [x, y, places])


def log_matmul(t, n):
    a, b = torch.log_softmax(normal(n, n, dtype=F32), -1), torch.log_softmax(normal(n, n, dtype=F32), 0)
    c = torch.empty(n, n, device=DEVICE)
    run = t.caller("log_matmul", [a, b, c])
    run()
    want = torch.logsumexp(a[:16, :, None].double() + b[None].double(), 1)
    worst = (c[:16].double() - want).abs().max().item()
    peers = {"torch.compile": compiled(lambda x, y: torch.logsumexp(x[:, :, None] + y[None], 1), a, b)}
    return run, peers, {"max_abs_err": worst}, {"flops": 2 * n ** 3}


def arrays(t):
    n = 1 << 26
    for dtype in (I32, F32):
        yield "device_scan", f"2^26 {'i32' if dtype == I32 else 'f32'}", functools.partial(scan, t, "device_scan", n, dtype)
    yield "device_scan", "2^26 f32, look-back", functools.partial(scan, t, "device_scan_look_back", n, F32)
    for share in (0.1, 0.5, 0.9):
        yield "device_select", f"2^26 f32, {share} kept", functools.partial(select, t, n, F32, share)
    for segments, mean, columns in ((1 << 20, 64, ()), (1 << 14, 64, (256,)), (4096, 4096, ()), (64, 1 << 20, ())):
        yield "device_segment_sum", f"{segments} of {mean}{' x %d' % columns if columns else ''} f32", functools.partial(segment_sum, t, segments, mean, columns)
    yield "device_searchsorted", "2^24 in 2^20 f32", functools.partial(searchsorted, t, 1 << 20, 1 << 24)
    for bins in (32, 256, 4096, 65536):
        for skewed in (False, True):
            yield "device_histogram", f"2^26 i32, {bins} bins{', half one key' if skewed else ''}", functools.partial(histogram, t, n, bins, skewed)


def orders(t):
    for n in (1 << 20, 1 << 26):
        for dtype in (I32, F32, BF16):
            for has_places in (False, True):
                what = f"2^{n.bit_length() - 1} {'i32' if dtype == I32 else named(dtype)}{', places' if has_places else ''}"
                yield "device_sort", what, functools.partial(sort, t, n, dtype, has_places)
    for k in (8, 64, 512):
        yield "device_topk", f"{k} of 2^26 f32", functools.partial(topk, t, 1, 1 << 26, k, F32)
    for columns in (64, 128, 256, 512):
        for dtype in (BF16, F32):
            yield "device_topk", f"8 of {1 << 26 >> columns.bit_length() - 1} x {columns} {named(dtype)}", functools.partial(topk, t, (1 << 26) // columns, columns, 8, dtype)


def log_matmuls(t):
    for n in (1024, 4096):
        yield "log_matmul", f"{n}^3", functools.partial(log_matmul, t, n)


SUITES = [arrays, orders, log_matmuls]
