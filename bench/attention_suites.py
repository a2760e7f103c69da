"""Suites attention_masks and attention_scores of peers.py: FlexAttention (its Triton back end, and its FLASH back end if flash_peers.py finds it),
without and with the time to build its block mask, by a compiled create_block_mask or by the default call; attention_varlen: FlashAttention
with cu_seqlens; attention_decode: one query per head.

TFLOPS count the pairs that the mask keeps; computed_tflops count the pairs of the blocks that our kernel visits, as reported by the library. Values are checked in fp64 on some rows of two heads. A suite yields
(name, case, make); make() gives (ours, peers, error, work).
"""
import functools
import math

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

import flash_peers

DEVICE = torch.device("cuda:0")
SHAPES = ((4, 16, 4096, 128), (1, 16, 16384, 128))
WINDOW, CAP, DOCUMENTS = 1024, 30.0, 12
T5_BUCKETS, T5_DISTANCE = 32, 128
CELL, CELLS_KEPT, LAYERS = 128, 0.2, 12

flex = torch.compile(flex_attention, dynamic=False)
make_block_mask = torch.compile(create_block_mask, dynamic=False)


def causal(b, h, q, kv):
    return q >= kv


def window(b, h, q, kv):
    return (q >= kv) & (q - kv <= WINDOW)


def prefix_lm(prefix):
    return lambda b, h, q, kv: (kv < prefix) | (q >= kv)


def document(ids):
    return lambda b, h, q, kv: (ids[q] == ids[kv]) & (q >= kv)


def cells(table):
    return lambda b, h, q, kv: table[q // CELL, kv // CELL] != 0


def alibi(heads):
    return lambda s, b, h, q, kv: s + (kv - q) * torch.exp2(-8.0 * (h + 1) / heads)


def softcap(s, b, h, q, kv):
    return CAP * torch.tanh(s / CAP)


def t5_bias(table):
    """Returns T5's bias for one direction: half of the buckets contain one distance each, the others grow logarithmically. Buckets are looked up by distance, as in the library's case."""
    exact = T5_BUCKETS // 2
    grown = [exact + int(math.log(max(n, 1) / exact) / math.log(T5_DISTANCE / exact) * exact) for n in range(T5_DISTANCE + 1)]
    bucket_of = torch.tensor([n if n < exact else min(grown[n], T5_BUCKETS - 1) for n in range(T5_DISTANCE + 1)], device=DEVICE)
    return lambda s, b, h, q, kv: s + table[bucket_of[(q - kv).clamp(min=0, max=T5_DISTANCE)], h]


def distance_bias(table, offset):
    return lambda s, b, h, q, kv: s + table[q - kv + offset, h]


def error_on_rows(q, k, v, o, mask, score, rows=256):
    """Returns the relative error of the first two heads of the first batch entry, relative to fp64."""
    at = torch.randperm(q.shape[2], device=DEVICE)[:rows]
    kv = torch.arange(k.shape[2], device=DEVICE)[None, None, :]
    head, row = torch.arange(2, device=DEVICE)[:, None, None], at[None, :, None]
    s = (q[0, :2, at].double() @ k[0, :2].double().transpose(-1, -2)) / q.shape[-1] ** 0.5
    s = score(s, 0, head, row, kv).masked_fill(~mask(0, head, row, kv), float("-inf"))
    want = torch.softmax(s, -1) @ v[0, :2].double()
    return ((o[0, :2, at].double() - want).norm() / want.norm()).item()


def kept_pairs(mask, s):
    """Counts the pairs of one head, in slices of queries."""
    kv = torch.arange(s, device=DEVICE)[None, :]
    return sum(int(mask(0, 0, rows[:, None], kv).sum()) for rows in torch.arange(s, device=DEVICE).split(1024))


def work_of(pairs, shape, kept):
    """Returns the work of all heads in FLOPs, and of one in pairs. `kept` is counted from FlexAttention's mask, which checks that both masks agree."""
    if pairs.kept != kept:
        raise RuntimeError(f"our mask keeps {pairs.kept} pairs, FlexAttention's {kept}")
    b, h, _, d = shape
    facts = {"kept_pairs": kept, "computed_pairs": pairs.computed, "cover_pairs": pairs.cover, "tiles": f"{pairs.tile_queries}x{pairs.tile_keys}"}
    return {"flops": 4 * b * h * d * kept, "computed_flops": 4 * b * h * d * pairs.computed, "facts": facts}


def compare_flex(t, case, shape, mask, score=None, number=0.0, tables=()):
    """Measures the case of the library, and FlexAttention with the same mask and score."""
    torch._dynamo.reset()  # recompile for each row: after eight, the compiler gives up
    b, h, s, d = shape
    q, k, v = (torch.randn(shape, device=DEVICE, dtype=torch.bfloat16) for _ in range(3))
    o, lse = torch.full_like(q, float("nan")), torch.empty(b, h, s, device=DEVICE)
    tensors = [q, k, v, o, lse, *tables]
    run = t.caller(case, tensors, number)
    run()
    error = error_on_rows(q, k, v, o, mask, score or (lambda x, *_: x))
    block_mask = make_block_mask(mask, None, None, s, s, device=DEVICE)

    def alone():
        flex(q, k, v, score_mod=score, block_mask=block_mask)

    def with_mask():
        flex(q, k, v, score_mod=score, block_mask=make_block_mask(mask, None, None, s, s, device=DEVICE))

    def with_default_mask():
        flex(q, k, v, score_mod=score, block_mask=create_block_mask(mask, None, None, s, s, device=DEVICE))

    peers = {"flex": alone, "flex_with_mask": with_mask, "flex_with_default_mask": with_default_mask, **flash_peers.flex(q, k, v, mask, score)}
    return run, peers, error, work_of(t.pairs(case, tensors, number), shape, kept_pairs(mask, s))


def compare_flex_by_cells(t, shape, layers):
    """Measures a mask that looks up blocks in a table: the block list is built in each call, or once for all layers."""
    torch._dynamo.reset()
    b, h, s, d = shape
    q, k, v = (torch.randn(shape, device=DEVICE, dtype=torch.bfloat16) for _ in range(3))
    o, lse = torch.full_like(q, float("nan")), torch.empty(b, h, s, device=DEVICE)
    drawn = torch.rand(s // CELL, s // CELL, generator=torch.Generator().manual_seed(1)) < CELLS_KEPT
    table = (drawn | torch.eye(s // CELL, dtype=torch.bool)).to(DEVICE, torch.int32)
    mask = cells(table)
    run = t.caller("attention_table" if layers == 1 else "attention_table_layers", [q, k, v, o, lse, table], CELL)
    run()
    error = error_on_rows(q, k, v, o, mask, lambda x, *_: x)
    block_mask = make_block_mask(mask, None, None, s, s, device=DEVICE)

    def with_mask(made):
        for _ in range(layers):
            flex(q, k, v, block_mask=made)

    peers = {"flex": lambda: with_mask(block_mask), "flex_with_mask": lambda: with_mask(make_block_mask(mask, None, None, s, s, device=DEVICE))}
    for name, alone in flash_peers.flex(q, k, v, mask, None).items():
        peers[name] = lambda alone=alone: [alone() for _ in range(layers)]
    return run, peers, error, {"flops": layers * 4 * b * h * d * kept_pairs(mask, s), "facts": {"cells": f"{CELL}, {CELLS_KEPT:.0%} kept", "layers": layers}}


def document_tables(s, documents):
    """Returns the document of each position and the first position of each document, cut at random places."""
    cuts = torch.randperm(s - 1, generator=torch.Generator().manual_seed(1))[: documents - 1].sort().values + 1
    starts = torch.cat([torch.zeros(1, dtype=torch.int64), cuts]).to(DEVICE, torch.int32)
    return torch.bucketize(torch.arange(s), cuts, right=True).to(DEVICE, torch.int32), starts


def compare_flex_in_documents(t, shape):
    ids, starts = document_tables(shape[2], DOCUMENTS)
    return compare_flex(t, "attention_document", shape, document(ids), tables=(ids, starts))


def compare_flex_by_distance(t, case, shape):
    """Returns a table per head: of T5's buckets, or of all distances."""
    s, heads = shape[2], shape[1]
    is_t5 = case == "attention_t5_causal"
    table = torch.randn(T5_BUCKETS if is_t5 else 2 * s - 1, heads, device=DEVICE)
    return compare_flex(t, case, shape, causal, t5_bias(table) if is_t5 else distance_bias(table, s - 1), T5_DISTANCE if is_t5 else s - 1, [table])


def text(shape):
    return "b{} h{} s{} d{} bf16".format(*shape[:3], "/".join(str(n) for n in shape[3:]))


def list_time(t, s):
    """Returns the device time of the kernels that build the block list of a document mask, by CUPTI, without attention itself."""
    ids, starts = document_tables(s, 256)
    q, k, v, o = (torch.randn(1, 1, s, 64, device=DEVICE, dtype=torch.bfloat16) for _ in range(4))
    run = t.caller("attention_document", [q, k, v, o, torch.empty(1, 1, s, device=DEVICE), ids, starts])
    run()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as found:
        for _ in range(20):
            run()
        torch.cuda.synchronize()
    kernels = {e.key: e.device_time_total / e.count for e in found.key_averages() if "attention_" in e.key}
    return {"ms": sum(kernels.values()) / 1000, "kernels_us": {name: round(us, 2) for name, us in kernels.items()}}


def attention_lists(t):
    for s in (16384, 131072):
        yield "mask_list", f"document s{s}, 256 documents, device time", functools.partial(list_time, t, s)


def attention_masks(t):
    for shape in SHAPES:
        s = shape[2]
        yield "mask_causal", text(shape), functools.partial(compare_flex, t, "attention_causal", shape, causal)
        yield "mask_window", text(shape), functools.partial(compare_flex, t, "attention_window", shape, window, number=WINDOW)
        yield "mask_prefix", text(shape), functools.partial(compare_flex, t, "attention_prefix", shape, prefix_lm(s // 4), number=s // 4)
        yield "mask_document", text(shape), functools.partial(compare_flex_in_documents, t, shape)
        yield "mask_table", text(shape), functools.partial(compare_flex_by_cells, t, shape, 1)
        yield "mask_table_layers", f"{text(shape)}, {LAYERS} calls", functools.partial(compare_flex_by_cells, t, shape, LAYERS)


def attention_scores(t):
    for shape in SHAPES:
        yield "score_alibi", text(shape), functools.partial(compare_flex, t, "attention_alibi_causal", shape, causal, alibi(shape[1]))
        yield "score_softcap", text(shape), functools.partial(compare_flex, t, "attention_softcap_causal", shape, causal, softcap, CAP)
        yield "score_softcap_approx", text(shape), functools.partial(compare_flex, t, "attention_softcap_approx_causal", shape, causal, softcap, CAP)
        yield "score_t5", text(shape), functools.partial(compare_flex_by_distance, t, "attention_t5_causal", shape)
        yield "score_distances", text(shape), functools.partial(compare_flex_by_distance, t, "attention_distances_causal", shape)


def lengths_of(total, sequences):
    """Draws log-uniform lengths from 1 to 64, then scales them; equal in every run."""
    drawn = 64 ** torch.rand(sequences, generator=torch.Generator().manual_seed(1))
    ends = (drawn.cumsum(0) / drawn.sum() * total).round().to(torch.int64)
    return torch.diff(ends, prepend=torch.zeros(1, dtype=torch.int64))


def compare_flash_varlen(t, case, total, sequences, heads, d):
    """Compares packed sequences with FlashAttention. Tensors are [position, head, dim]."""
    lengths = lengths_of(total, sequences)
    longest, is_causal = int(lengths.max()), case.endswith("causal")
    begins = torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)]).to(DEVICE, torch.int32)
    q, k, v, o = (torch.randn(total, heads, d, device=DEVICE, dtype=torch.bfloat16) for _ in range(4))
    run = t.caller(case, [q, k, v, o, torch.empty(total, heads, device=DEVICE), begins], longest)
    run()

    def peer():
        return torch.ops.aten._flash_attention_forward(q, k, v, begins, begins, longest, longest, 0.0, is_causal, False)[0]

    longest_at = int(lengths.argmax())
    at = slice(int(begins[longest_at]), int(begins[longest_at + 1]))
    s = torch.einsum("qhd,khd->hqk", q[at, :2].double(), k[at, :2].double()) / d**0.5
    if is_causal:
        s = s.masked_fill(torch.ones_like(s, dtype=torch.bool).triu(1), float("-inf"))
    want = torch.einsum("hqk,khd->qhd", torch.softmax(s, -1), v[at, :2].double())
    error = ((o[at, :2].double() - want).norm() / want.norm()).item()
    pairs = int((lengths * (lengths + 1) // 2 if is_causal else lengths * lengths).sum())
    return run, {"flash2": peer, **flash_peers.varlen(q, k, v, begins, longest, is_causal)}, error, {"flops": 4 * heads * d * pairs, "facts": {"longest": longest}}


def attention_varlen(t):
    for total, sequences in ((16384, 16), (65536, 16), (16384, 128)):
        for case in ("attention_varlen", "attention_varlen_causal"):
            yield case, f"{sequences} sequences, {total} positions, h16 d128 bf16", functools.partial(compare_flash_varlen, t, case, total, sequences, 16, 128)


def decoder_tensors(b, h, kv_heads, s, d):
    """Returns Q, K, V and O of one query per head, [batch, heads, 1, dim]."""
    q, o = (torch.randn(b, h, 1, d, device=DEVICE, dtype=torch.bfloat16) for _ in range(2))
    k, v = (torch.randn(b, kv_heads, s, d, device=DEVICE, dtype=torch.bfloat16) for _ in range(2))
    return q, k, v, o


def decoder_error(q, k, v, o):
    """Returns the error of the first and the last head of the first batch entry, relative to fp64."""
    h, d = q.shape[1], q.shape[3]

    def want(head):
        at = (0, head // (h // k.shape[1]))
        return torch.softmax((k[at].double() @ q[0, head, 0].double()) / d**0.5, 0) @ v[at].double()

    return max(((o[0, head, 0].double() - want(head)).norm() / want(head).norm()).item() for head in (0, h - 1))


def compare_decoders(t, b, h, kv_heads, s, d):
    """Counts the bytes of keys and values."""
    torch._dynamo.reset()
    q, k, v, o = decoder_tensors(b, h, kv_heads, s, d)
    run = t.caller("attention_full", [q, k, v, o, torch.empty(b, h, 1, device=DEVICE)])
    run()

    def by(backend):
        def call():
            with sdpa_kernel(backend):
                return F.scaled_dot_product_attention(q, k, v, enable_gqa=kv_heads != h)
        return call

    peers = {"cudnn": by(SDPBackend.CUDNN_ATTENTION), "flash2": by(SDPBackend.FLASH_ATTENTION), "flex": lambda: flex(q, k, v, enable_gqa=kv_heads != h), **flash_peers.decode(q, k, v)}
    return run, peers, decoder_error(q, k, v, o), {"bytes": 2 * k.numel() * k.element_size()}


DECODED = ((1, 32, 8, 4096), (1, 32, 8, 16384), (1, 32, 8, 131072), (4, 32, 8, 16384), (16, 32, 8, 8192), (1, 32, 32, 16384), (1, 32, 1, 32768))


def attention_decode(t):
    for b, h, kv_heads, s in DECODED:
        yield "attention_decode", f"b{b} h{h} kv{kv_heads} keys {s} d128 bf16", functools.partial(compare_decoders, t, b, h, kv_heads, s, 128)


SUITES = [attention_decode, attention_masks, attention_scores, attention_lists, attention_varlen]
