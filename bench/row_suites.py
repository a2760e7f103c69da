"""Kernels of rows for bench/peers.py: norms, softmax, gated activations, rotary embedding, with PyTorch and a copy beside them.

A suite yields (name, case, make); make() gives (ours, peers, error, work). The peer "copy" is torch's copy_ of as many bytes as the
case has to read and write: ratio_copy is the share of the copy's bandwidth.
"""
import functools

import torch
import torch.nn.functional as F

DEVICE = torch.device("cuda:0")
BF16, F32 = torch.bfloat16, torch.float32


def error_of(got, want):
    return ((got.double() - want.double()).norm() / want.double().norm()).item()


def normal(*shape, dtype=BF16):
    return torch.randn(*shape, device=DEVICE).to(dtype)


def case_of(run, peers, pairs, moved):
    """The row of a case that reads and writes the tensors `moved` once each; `pairs` are results with what they have to be."""
    total = sum(x.numel() * x.element_size() for x in moved)
    source = torch.empty(total // 2, device=DEVICE, dtype=torch.uint8)
    target = torch.empty_like(source)
    run()
    errors = {f"max_err{i or ''}": error_of(got, want()) for i, (got, want) in enumerate(pairs)}
    return run, {**peers, "copy": lambda: target.copy_(source)}, errors, {"bytes": total}


def compiled(f, *args):
    """By torch.compile, for these arguments' shapes."""
    fast = torch.compile(f, dynamic=False)
    return lambda: fast(*args)


def named(dtype):
    return "f32" if dtype == F32 else "bf16"


def softmax(t, rows, cols, dtype):
    x, y = normal(rows, cols, dtype=dtype), torch.empty(rows, cols, device=DEVICE, dtype=dtype)
    peers = {"torch.softmax": lambda: torch.softmax(x, -1), "torch.compile": compiled(lambda a: torch.softmax(a, -1), x)}
    return case_of(t.caller("softmax", [x, y]), peers, [(y, lambda: torch.softmax(x.double(), -1))], [x, y])


def softmax_backward(t, rows, cols, dtype):
    y, dy = torch.softmax(normal(rows, cols, dtype=dtype), -1), normal(rows, cols, dtype=dtype)
    dx = torch.empty_like(y)
    backward = torch.ops.aten._softmax_backward_data
    peers = {"torch": lambda: backward(dy, y, -1, dtype), "torch.compile": compiled(lambda g, p: backward(g, p, -1, dtype), dy, y)}
    want = lambda: y.double() * (dy.double() - (y.double() * dy.double()).sum(-1, keepdim=True))
    return case_of(t.caller("softmax_backward", [y, dy, dx]), peers, [(dx, want)], [y, dy, dx])


def softmaxes(t):
    shapes = [(1 << 28 >> k, 1 << k, BF16) for k in (8, 10, 12, 13, 15, 16, 17)] + [(1 << 27 >> k, 1 << k, F32) for k in (10, 13, 15, 16)] + [(20000, 5000, BF16)]
    for rows, cols, dtype in shapes:
        yield "softmax", f"{rows}x{cols} {named(dtype)}", functools.partial(softmax, t, rows, cols, dtype)
        if cols in (1024, 8192, 32768, 131072):
            yield "softmax_backward", f"{rows}x{cols} {named(dtype)}", functools.partial(softmax_backward, t, rows, cols, dtype)


def rms_norm(t, rows, cols, eps=1e-6):
    x, w = normal(rows, cols), normal(cols)
    y = torch.empty_like(x)
    norm = lambda a, b: F.rms_norm(a, (cols,), b, eps)
    want = lambda: norm(x.double(), w.double())
    peers = {"F.rms_norm": lambda: norm(x, w), "torch.compile": compiled(norm, x, w)}
    return case_of(t.caller("rms_norm", [x, w, y], eps), peers, [(y, want)], [x, y])


def rms_norm_residual(t, rows, cols, eps=1e-6):
    x, res, w = normal(rows, cols), normal(rows, cols), normal(cols)
    y, total, rstd = torch.empty_like(x), torch.empty_like(x), torch.empty(rows, device=DEVICE)

    def norm(a, r, b):
        h = a + r
        return F.rms_norm(h, (cols,), b, eps), h

    pairs = [(total, lambda: x + res), (y, lambda: F.rms_norm((x + res).double(), (cols,), w.double(), eps))]
    return case_of(t.caller("rms_norm", [x, w, y, res, total, rstd], eps), {"torch.compile": compiled(norm, x, res, w)}, pairs, [x, res, y, total])


def layer_norm(t, rows, cols, eps=1e-5):
    x, w, b = normal(rows, cols), normal(cols), normal(cols)
    y, mean, rstd = torch.empty_like(x), torch.empty(rows, device=DEVICE), torch.empty(rows, device=DEVICE)
    norm = lambda a, c, d: F.layer_norm(a, (cols,), c, d, eps)
    peers = {"F.layer_norm": lambda: norm(x, w, b), "torch.compile": compiled(norm, x, w, b)}
    return case_of(t.caller("layer_norm", [x, w, b, y, mean, rstd], eps), peers, [(y, lambda: norm(x.double(), w.double(), b.double()))], [x, y])


def gradients(norm, tensors, dy):
    """Of `norm` by autograd, in double."""
    leaves = [x.double().requires_grad_() for x in tensors]
    norm(*leaves).backward(dy.double())
    return [x.grad for x in leaves]


def norm_backward(t, is_centred, rows, cols, eps=1e-5):
    x, w, b, dy = normal(rows, cols), normal(cols), normal(cols), normal(rows, cols)
    dx, dw, db = torch.empty_like(x), torch.empty_like(w), torch.empty_like(b)
    mean = x.float().mean(-1)
    rstd = torch.rsqrt((x.float().var(-1, correction=0) if is_centred else x.float().pow(2).mean(-1)) + eps)
    tensors = (x, w, b) if is_centred else (x, w)
    norm = (lambda a, c, d: F.layer_norm(a, (cols,), c, d, eps)) if is_centred else (lambda a, c: F.rms_norm(a, (cols,), c, eps))
    leaves = [a.clone().requires_grad_() for a in tensors]
    eager, fast = norm(*leaves), torch.compile(norm, dynamic=False)(*leaves)
    peers = {name: functools.partial(torch.autograd.grad, out, leaves, dy, retain_graph=True) for name, out in (("torch", eager), ("torch.compile", fast))}
    want = functools.cache(lambda: gradients(norm, [a[:4096] if a is x else a for a in tensors], dy[:4096]))
    run = t.caller("layer_norm_backward", [x, w, mean, rstd, dy, dx, dw, db]) if is_centred else t.caller("rms_norm_backward", [x, w, rstd, dy, dx, dw])
    found = torch.autograd.grad(eager, leaves, dy, retain_graph=True)
    pairs = [(dx[:4096], lambda: want()[0]), (dw, lambda: found[1])] + ([(db, lambda: found[2])] if is_centred else [])
    return case_of(run, peers, pairs, [x, dy, dx])


def norms(t):
    for rows, cols in ((65536, 1024), (32768, 4096), (16384, 8192), (8192, 16384), (32768, 5120)):
        what = f"{rows}x{cols} bf16"
        yield "rms_norm", what, functools.partial(rms_norm, t, rows, cols)
        yield "rms_norm_residual", what, functools.partial(rms_norm_residual, t, rows, cols)
        yield "layer_norm", what, functools.partial(layer_norm, t, rows, cols)
        yield "rms_norm_backward", what, functools.partial(norm_backward, t, False, rows, cols)
        yield "layer_norm_backward", what, functools.partial(norm_backward, t, True, rows, cols)


ACTIVATIONS = {"swiglu": F.silu, "geglu": F.gelu, "geglu_tanh": functools.partial(F.gelu, approximate="tanh")}


def gated(t, number, activation, rows, cols, are_halves):
    both = normal(rows, 2 * cols)
    gate, up = both.chunk(2, -1) if are_halves else (normal(rows, cols), normal(rows, cols))
    y = torch.empty(rows, cols, device=DEVICE, dtype=BF16)
    f = lambda a, b: activation(a) * b
    return case_of(t.caller("gated_activation", [gate, up, y], number), {"torch.compile": compiled(f, gate, up)}, [(y, lambda: f(gate.double(), up.double()))], [gate, up, y])


def gated_backward(t, number, activation, rows, cols):
    gate, up, dy = (normal(rows, cols) for _ in range(3))
    dgate, dup = torch.empty_like(gate), torch.empty_like(up)
    f = lambda a, b: activation(a) * b
    leaves = [a.clone().requires_grad_() for a in (gate, up)]
    out = torch.compile(f, dynamic=False)(*leaves)
    want = functools.cache(lambda: gradients(f, (gate, up), dy))
    run = t.caller("gated_activation", [gate, up, dy, dgate, dup], number)
    peers = {"torch.compile": lambda: torch.autograd.grad(out, leaves, dy, retain_graph=True)}
    return case_of(run, peers, [(dgate, lambda: want()[0]), (dup, lambda: want()[1])], [gate, up, dy, dgate, dup])


def gated_activations(t):
    for number, (name, activation) in enumerate(ACTIVATIONS.items()):
        for rows, cols in ((16384, 14336), (16384, 5000)):
            what = f"{rows}x{cols} bf16"
            yield name, what, functools.partial(gated, t, number, activation, rows, cols, False)
            yield f"{name}_halves", what, functools.partial(gated, t, number, activation, rows, cols, True)
            yield f"{name}_backward", what, functools.partial(gated_backward, t, number, activation, rows, cols)


def rope(t, pairs, tokens, heads, dim, has_positions):
    x, angles = normal(tokens, heads, dim), torch.rand(tokens, dim // 2, device=DEVICE) * 6
    cos, sin, y = angles.cos(), angles.sin(), torch.empty(tokens, heads, dim, device=DEVICE, dtype=BF16)
    where = [torch.randperm(tokens, device=DEVICE, dtype=torch.int32)] if has_positions else []

    def rotated(a, c, s):
        c, s = (c[where[0].long()], s[where[0].long()]) if where else (c, s)
        c, s = c[:, None], s[:, None]
        low, high = (a[..., 0::2], a[..., 1::2]) if pairs else a.chunk(2, -1)
        low, high = low * c - high * s, high * c + low * s
        return (torch.stack((low, high), -1).flatten(-2) if pairs else torch.cat((low, high), -1)).to(a.dtype)

    run = t.caller("rope", [x, cos, sin, y, *where], pairs)
    return case_of(run, {"torch.compile": compiled(rotated, x, cos, sin)}, [(y, lambda: rotated(x.double(), cos.double(), sin.double()))], [x, y, cos, sin])


def ropes(t):
    for pairs, name in enumerate(("half_split", "interleaved")):
        for tokens, heads, dim in ((16384, 32, 128), (32768, 8, 128), (32768, 16, 64)):
            for has_positions in (False, True):
                what = f"{tokens}x{heads}x{dim} bf16 {name}{' positions' if has_positions else ''}"
                yield "rope", what, functools.partial(rope, t, pairs, tokens, heads, dim, has_positions)


SUITES = [softmaxes, norms, gated_activations, ropes]
