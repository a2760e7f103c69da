"""Suites attention_backward and attention_backward_masks of peers.py: gradients of attention from saved results, including the small kernels before and after on
all sides, without autograd's host time.

TFLOPS count 2.5 times the forward call's operations, of the pairs that the mask keeps. Values of one head are checked in fp64; the error is the largest of
dQ, dK and dV. FlexAttention's backward graph alone is timed, after one forward call.
"""
import functools

import torch
from torch.nn.attention.flex_attention import flex_attention

import attention_suites
import flash_peers
from attention_suites import DEVICE, document, document_tables, kept_pairs, make_block_mask, prefix_lm, window

LENGTHS = ((16, 1024), (4, 4096), (1, 16384))
SHAPES = [(b, 2048 // d, s, d) for d in (128, 64, 256) for b, s in LENGTHS]
OTHER_VALUES = [(b, 16, s, 192, 128) for b, s in LENGTHS]
aten = torch.ops.aten


def expected(q, k, v, grad, mask):
    """Returns the gradients of the first head in fp64."""
    q, k, v = (x[0, 0].double().detach().requires_grad_() for x in (q, k, v))
    s = q @ k.T / q.shape[-1] ** 0.5
    if mask:
        at = torch.arange(q.shape[0], device=DEVICE)
        s = s.masked_fill(~mask(0, 0, at[:, None], at[None, :]), float("-inf"))
    (torch.softmax(s, -1) @ v).backward(grad[0, 0].double())
    return q.grad, k.grad, v.grad


def error_of(gradients, want):
    return max(((got[0, 0].double() - x).norm() / x.norm()).item() for got, x in zip(gradients, want))


def cudnn(q, k, v, grad, causal):
    o, lse, *rest = aten._scaled_dot_product_cudnn_attention(q, k, v, None, True, 0.0, causal, False)
    begins_q, begins_k, most_q, most_k, seed, offset, _ = rest
    return lambda: aten._scaled_dot_product_cudnn_attention_backward(grad, q, k, v, o, lse, seed, offset, None, begins_q, begins_k, most_q, most_k, 0.0, causal)


def flash2(q, k, v, grad, causal):
    o, lse, begins_q, begins_k, most_q, most_k, seed, offset, _ = aten._scaled_dot_product_flash_attention(q, k, v, 0.0, causal, False)
    return lambda: aten._scaled_dot_product_flash_attention_backward(grad, q, k, v, o, lse, begins_q, begins_k, most_q, most_k, 0.0, causal, seed, offset)


def flash4(q, k, v, grad, causal):
    from flash_attn.cute.interface import _flash_attn_bwd, _flash_attn_fwd

    q, k, v, grad = (x.transpose(1, 2).contiguous() for x in (q, k, v, grad))
    o, lse, *_ = _flash_attn_fwd(q, k, v, causal=causal, return_lse=True)
    into = {name: torch.empty_like(x) for name, x in (("dq", q), ("dk", k), ("dv", v))}
    return lambda: tuple(x.transpose(1, 2) for x in _flash_attn_bwd(q, k, v, o, grad, lse, causal=causal, **into)[:3])


def made(make, *args):
    """Returns the peer; if its creation fails, returns a function that raises the same exception."""
    try:
        return make(*args)
    except Exception as problem:
        text = str(problem)

        def fails():
            raise RuntimeError(text)

        return fails


def tensors_of(t, case, shape, kv_heads, tables=(), number=0.0, of_table=False):
    """Returns Q, K, V and dO, their gradients, and the call; with `of_table` also the gradient of the first table."""
    b, h, s, d, *rest = shape
    of_v = rest[0] if rest else d
    q, grad = (torch.randn(b, h, s, n, device=DEVICE, dtype=torch.bfloat16) for n in (d, of_v))
    k, v = (torch.randn(b, kv_heads, s, n, device=DEVICE, dtype=torch.bfloat16) for n in (d, of_v))
    o, lse = torch.empty_like(grad), torch.empty(b, h, s, device=DEVICE)
    into = [torch.empty_like(x) for x in (q, k, v, *(tables[:1] if of_table else ()))]
    t.caller(case, [q, k, v, o, lse, *tables], number)()
    return (q, k, v, grad), into, t.caller(f"{case}_backward", [q, k, v, o, lse, *tables, grad, *into], number)


def backward(t, causal, shape, kv_heads=None):
    b, h, s, d = shape[:4]
    (q, k, v, grad), into, run = tensors_of(t, "attention_causal" if causal else "attention_full", shape, kv_heads or h)
    run()
    want = expected(q, k, v, grad, attention_suites.causal if causal else None) if not kv_heads else None
    errors = {"max_err": error_of(into, want) if want else 0.0}
    peers = {}
    if not kv_heads:
        peers = {"cudnn": made(cudnn, q, k, v, grad, causal), "flash2": made(flash2, q, k, v, grad, causal)}
        if flash_peers.FLASH4:
            peers["flash4"] = made(flash4, q, k, v, grad, causal)
        for name, peer in peers.items():
            try:
                errors[f"{name}_err"] = error_of(peer(), want)
            except Exception:  # peers.py reports it
                pass
    return run, peers, errors, {"flops": 2 * b * h * s * s * (3 * d + 2 * shape[-1]) // (2 if causal else 1)}


def flex_peers(q, k, v, grad, mask, score, table=None):
    """Measures the gradients under a mask or score. `table`: a tensor that the score captures and that requires a gradient."""
    torch._dynamo.reset()
    leaves = [x.detach().requires_grad_() for x in (q, k, v)]
    wanted = leaves if table is None else [*leaves, table]

    def gradients(call, block_mask):
        out = call(*leaves, score_mod=score, block_mask=block_mask)
        return lambda: torch.autograd.grad(out, wanted, grad, retain_graph=True)

    s = q.shape[2]
    block_mask = make_block_mask(mask, None, None, s, s, device=DEVICE) if mask else None
    peers = {"flex": made(gradients, torch.compile(flex_attention, dynamic=False), block_mask)}
    if flash_peers.FLASH4 and mask:
        def by_flash(q, k, v, score_mod, block_mask):
            return flex_attention(q, k, v, score_mod=score_mod, block_mask=block_mask, kernel_options={"BACKEND": "FLASH"})

        coarse = attention_suites.create_block_mask(mask, None, None, s, s, device=DEVICE, BLOCK_SIZE=flash_peers.BLOCK)
        peers["flex_flash"] = made(gradients, torch.compile(by_flash, dynamic=False), coarse)
    return peers


def compare_flex(t, case, shape, mask, score=None, number=0.0, tables=()):
    b, h, s, d = shape
    (q, k, v, grad), into, run = tensors_of(t, case, shape, h, tables, number)
    run()
    peers = flex_peers(q, k, v, grad, mask, score)
    errors = {"max_err": error_of(into, expected(q, k, v, grad, mask))} if score is None else {"max_err": error_of(into, [x[0, 0].double() for x in peers["flex"]()])}
    return run, peers, errors, {"flops": 10 * b * h * d * kept_pairs(mask, s)}


def with_table(t, case, shape, mask, table, score_of, number=0.0):
    """Also computes the gradient of the table; the error is the largest of all gradients."""
    b, h, s, d = shape
    (q, k, v, grad), into, run = tensors_of(t, case, shape, h, [table], number, of_table=True)
    run()
    leaf = table.detach().requires_grad_()
    peers = flex_peers(q, k, v, grad, mask, score_of(leaf), leaf)
    want = peers["flex"]()
    errors = {"max_err": max(error_of(into[:3], [x[0, 0].double() for x in want]), ((into[3].double() - want[3].double()).norm() / want[3].double().norm()).item())}
    return run, peers, errors, {"flops": 10 * b * h * d * (kept_pairs(mask, s) if mask else s * s)}


def with_bias(t, shape):
    b, h, s, _ = shape
    return with_table(t, "attention_bias", shape, None, torch.randn(b, h, s, s, device=DEVICE, dtype=torch.bfloat16), lambda bias: lambda x, b, h, q, kv: x + bias[b, h, q, kv])


def by_distance(t, shape):
    _, h, s, _ = shape
    table = torch.randn(2 * s - 1, h, device=DEVICE)
    return with_table(t, "attention_distances_causal", shape, attention_suites.causal, table, lambda leaf: attention_suites.distance_bias(leaf, s - 1), float(s - 1))


def in_documents(t, shape):
    ids, starts = document_tables(shape[2], attention_suites.DOCUMENTS)
    return compare_flex(t, "attention_document", shape, document(ids), tables=(ids, starts))


def backwards(t):
    for shape in SHAPES + OTHER_VALUES:
        for causal in (False, True):
            yield f"attention_backward_{'causal' if causal else 'full'}", attention_suites.text(shape), functools.partial(backward, t, causal, shape)


def masks(t):
    shape = (4, 16, 4096, 128)
    prefix = 1024
    for case, mask, number in (("causal", attention_suites.causal, 0.0), ("window", window, attention_suites.WINDOW), ("prefix", prefix_lm(prefix), prefix)):
        yield "attention_backward_masks", f"{case} {attention_suites.text(shape)}", functools.partial(compare_flex, t, f"attention_{case}", shape, mask, number=float(number))
    for case, score, number in (("alibi", attention_suites.alibi(shape[1]), 0.0), ("softcap", attention_suites.softcap, attention_suites.CAP)):
        yield "attention_backward_masks", f"{case} causal {attention_suites.text(shape)}", functools.partial(compare_flex, t, f"attention_{case}_causal", shape, attention_suites.causal, score, number)
    yield "attention_backward_masks", f"document {attention_suites.text(shape)}", functools.partial(in_documents, t, shape)
    yield "attention_backward_masks", f"bias and dBias {attention_suites.text(shape)}", functools.partial(with_bias, t, shape)
    yield "attention_backward_masks", f"table by distance and its gradient, causal {attention_suites.text(shape)}", functools.partial(by_distance, t, shape)


SUITES = [backwards, masks]
