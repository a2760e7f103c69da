"""Suites paged_decode and kv_append of peers.py: a step of one query per request over a paged KV cache, compared with the peers of serving_peers.py, and storing
the keys and values of a step, without a peer.

All layers of a step share its work list, so the list is written before the timed call, as are plans and tables of peers; schedule_us is the device time of writing
the list, flashinfer_plan_us the host time of FlashInfer's plan. Rates count the bytes of all keys and values. Values of each side are checked in fp64 for up
to four requests: the first, the last, the longest and the shortest. A peer whose values are wrong is not measured.
"""
import functools
import math
import sys

import torch

import serving_peers
from serving_peers import Step

DEVICE = torch.device("cuda:0")
SEED = 1
LARGEST_ERROR = 0.02  # of correct results in bf16: 0.002 to 0.005
PAGE_ROWS = (16, 64)


def uniform(requests, longest):
    return torch.randint(1, longest + 1, (requests,), generator=torch.Generator().manual_seed(SEED))


def log_uniform(requests, longest):
    share = torch.rand(requests, generator=torch.Generator().manual_seed(SEED), dtype=torch.float64)
    return (share * math.log(longest)).exp().long().clamp(1, longest)


def even(requests, length):
    return torch.full((requests,), length)


def one_long(requests, length, others):
    return torch.cat((even(1, length), even(requests - 1, others)))


# Description, lengths, heads, kv heads, head dim.
STEPS = [
    ("1 x 8k", even(1, 8192), 32, 8, 128),
    ("1 x 128k", even(1, 131072), 32, 8, 128),
    ("4 x 16k", even(4, 16384), 32, 8, 128),
    ("16 x 8k", even(16, 8192), 32, 8, 128),
    ("64 x 2k", even(64, 2048), 32, 8, 128),
    ("64 x 8k", even(64, 8192), 32, 8, 128),
    ("64 x 8k", even(64, 8192), 64, 4, 128),
    ("64 x 8k", even(64, 8192), 32, 8, 64),
    ("16 x 8k", even(16, 8192), 32, 8, 64),
    (f"256 of 1..30000, seed {SEED}", uniform(256, 30000), 32, 8, 64),
    (f"256 of 1..30000, seed {SEED}", uniform(256, 30000), 32, 8, 128),
    (f"256 of 1..32768, log-uniform, seed {SEED}", log_uniform(256, 32768), 32, 8, 128),
    ("1 x 1M and 255 x 100", one_long(256, 1 << 20, 100), 32, 8, 128),
]
APPENDED = ((1, 1), (64, 1), (256, 1), (4, 512))  # requests, tokens of each


def shuffled_table(lengths, rows):
    """Returns a table of pages in random order, -1 after the last page of a request, and the number of pages."""
    counts = (lengths + rows - 1) // rows
    total = int(counts.sum())
    table = torch.full((len(lengths), int(counts.max())), -1, dtype=torch.int32)
    is_page = torch.arange(table.shape[1])[None, :] < counts[:, None]
    table[is_page] = torch.randperm(total, generator=torch.Generator().manual_seed(SEED)).to(torch.int32)
    return table.to(DEVICE), total


def cache_rows(table, lengths, rows):
    """Returns the cache row, page * rows + row, of each key of all requests in order."""
    lengths = lengths.to(DEVICE)
    request = torch.repeat_interleave(torch.arange(len(lengths), device=DEVICE), lengths)
    position = torch.arange(len(request), device=DEVICE) - (lengths.cumsum(0) - lengths)[request]
    return table[request, position // rows].long() * rows + position % rows


def new_step(lengths, heads, kv_heads, dim, rows):
    table, pages = shuffled_table(lengths, rows)
    at = cache_rows(table, lengths, rows)
    k, v = (torch.zeros(pages, rows, kv_heads, dim, device=DEVICE, dtype=torch.bfloat16) for _ in range(2))
    for t in (k, v):  # rows after the last key of a request remain 0
        t.view(-1, kv_heads, dim).index_copy_(0, at, torch.randn(len(at), kv_heads, dim, device=DEVICE, dtype=torch.bfloat16))
    q = torch.randn(len(lengths), heads, dim, device=DEVICE, dtype=torch.bfloat16)
    packed = functools.cache(lambda: tuple(t.view(-1, kv_heads, dim)[at] for t in (k, v)))
    return Step(q, k, v, table, lengths.to(DEVICE, torch.int32), packed)


def checked_requests(step):
    lengths = step.lengths.tolist()
    return sorted({0, len(lengths) - 1, lengths.index(max(lengths)), lengths.index(min(lengths))})


def reference(step):
    """Returns the results of the checked requests in fp64, [requests, heads, dim]."""
    k, v = step.packed()
    results = []
    for b in checked_requests(step):
        keys = slice(int(step.begins[b]), int(step.begins[b + 1]))
        q = step.q[b].double().view(step.kv_heads, -1, step.q.shape[2])
        p = torch.softmax(torch.einsum("hgd,nhd->hgn", q, k[keys].double()) / q.shape[2] ** 0.5, -1)
        results.append(torch.einsum("hgn,nhd->hgd", p, v[keys].double()).reshape(step.q.shape[1:]))
    return torch.stack(results)


def error_of(step, result, want):
    got = result.reshape(step.q.shape)[checked_requests(step)].double()
    return ((got - want).norm() / want.norm()).item()


def with_correct_values(step, want):
    """Returns the calls of the peers that support the step, their errors, and what they report about their preparation."""
    calls, errors, facts = {}, {}, {}
    for name, make in serving_peers.available().items():
        try:
            made = make(step)
            if made is None:
                continue
            call, found = made
            call()  # the second result also shows whether the first call restored the peer's state
            error = error_of(step, call(), want)
            if not error < LARGEST_ERROR:
                raise RuntimeError(f"relative error {error:.3g}")
        except Exception as problem:  # peers raise errors of different types
            print(f"{name}: {str(problem)[:300]}", file=sys.stderr)
            continue
        calls[name], errors[f"{name}_err"] = call, error
        facts.update(found)
    return calls, errors, facts


def device_us(run, calls=20):
    """Returns the mean device time of consecutive calls. The device first waits until the host has launched all of them."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    run()
    torch.cuda._sleep(4_000_000)
    begin.record()
    for _ in range(calls):
        run()
    end.record()
    end.synchronize()
    return round(1000 * begin.elapsed_time(end) / calls, 2)


def decode(t, lengths, heads, kv_heads, dim, rows):
    step = new_step(lengths, heads, kv_heads, dim, rows)
    offsets = torch.arange(step.requests + 1, dtype=torch.int32, device=DEVICE)
    work = torch.full((t.schedule_words(step.requests),), -1, dtype=torch.int32, device=DEVICE)
    o = torch.full_like(step.q, float("nan"))
    tensors = [step.q, step.k, step.v, step.table, offsets, step.lengths, work, o]
    t.run_once("paged_schedule", tensors, 1)
    run = t.caller("paged_attention", tensors, 1)
    run()
    want = reference(step)
    error = error_of(step, o, want)
    peers, errors, facts = with_correct_values(step, want)
    facts = {"schedule_us": device_us(t.caller("paged_schedule", tensors, 1)), "longest": step.longest, "keys": int(step.lengths.sum()), **facts}
    size = 2 * step.k.element_size() * kv_heads * dim * facts["keys"]
    return run, peers, {"max_err": error, **errors}, {"bytes": size, "facts": facts}


def paged_decode(t):
    for what, lengths, heads, kv_heads, dim in STEPS:
        for rows in PAGE_ROWS:
            yield "paged_decode", f"{what}, h{heads} kv{kv_heads} d{dim} bf16, pages of {rows}", functools.partial(decode, t, lengths, heads, kv_heads, dim, rows)


def append(t, requests, tokens, kv_heads, dim, rows, kept=8192):
    """The step's tokens are the last of `kept` keys of each request."""
    lengths = even(requests, kept)
    table, pages = shuffled_table(lengths, rows)
    k_pages, v_pages = (torch.zeros(pages, rows, kv_heads, dim, device=DEVICE, dtype=torch.bfloat16) for _ in range(2))
    k, v = (torch.randn(requests * tokens, kv_heads, dim, device=DEVICE, dtype=torch.bfloat16) for _ in range(2))
    offsets = torch.arange(0, requests * tokens + 1, tokens, dtype=torch.int32, device=DEVICE)
    run = t.caller("kv_append", [k, v, k_pages, v_pages, table, offsets, lengths.to(DEVICE, torch.int32)], tokens)
    run()
    at = cache_rows(table, lengths, rows).view(requests, kept)[:, kept - tokens :].reshape(-1)
    for given, stored in ((k, k_pages), (v, v_pages)):
        stored = stored.view(-1, kv_heads, dim)
        if not torch.equal(stored[at], given) or stored.count_nonzero() != given.count_nonzero():
            raise RuntimeError("the cache does not contain the step's rows, or contains others")
    return run, {}, 0.0, {"bytes": 4 * k.numel() * k.element_size()}


def kv_append(t):
    for requests, tokens in APPENDED:
        yield "kv_append", f"{requests} x {tokens} tokens, kv8 d128 bf16, pages of 16", functools.partial(append, t, requests, tokens, 8, 128, 16)


SUITES = [paged_decode, kv_append]
