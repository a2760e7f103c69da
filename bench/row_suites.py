"""Row kernels for bench/peers.py: norms, softmax, gated activations, rotary embedding, losses, quantisation, Hadamard, embedding
and AdamW, with PyTorch and a copy as peers.

A suite yields (name, case, make); make() gives (ours, peers, error, work). The peer "copy" is torch's copy_ of the bytes that the
case has to read and write: ratio_copy is the fraction of the copy's bandwidth.
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
    """Returns the row of a case that reads and writes the tensors `moved` once each; `pairs` are results with their references."""
    total = sum(x.numel() * x.element_size() for x in moved)
    source = torch.empty(total // 2, device=DEVICE, dtype=torch.uint8)
    target = torch.empty_like(source)
    run()
    errors = {f"max_err{i or ''}": error_of(got, want()) for i, (got, want) in enumerate(pairs)}
    return run, {**peers, "copy": lambda: target.copy_(source)}, errors, {"bytes": total}


def compiled(f, *args):
    """Compiles with torch.compile for the shapes of these arguments."""
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
    """Computes the gradient of `norm` by autograd, in double."""
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


def cross_entropy(t, rows, classes):
    logits, labels = normal(rows, classes), torch.randint(classes, (rows,), device=DEVICE)
    loss, lse = torch.empty(rows, device=DEVICE), torch.empty(rows, device=DEVICE)
    f = functools.partial(F.cross_entropy, reduction="none")
    peers = {"torch": lambda: f(logits, labels), "torch.compile": compiled(lambda a, b: f(a.float(), b), logits, labels)}
    # Read-only: a copy of half the bytes moves the same amount.
    return case_of(t.caller("cross_entropy", [logits, labels, loss, lse]), peers, [(loss, lambda: f(logits.float(), labels))], [logits])


def cross_entropy_backward(t, rows, classes):
    logits, labels = normal(rows, classes), torch.randint(classes, (rows,), device=DEVICE)
    loss, lse, dloss = torch.empty(rows, device=DEVICE), torch.logsumexp(logits.float(), -1), torch.rand(rows, device=DEVICE)
    dlogits = torch.empty_like(logits)
    leaf = logits.clone().requires_grad_()
    out = torch.compile(lambda a, b: F.cross_entropy(a.float(), b, reduction="none"), dynamic=False)(leaf, labels)
    peers = {"torch.compile": lambda: torch.autograd.grad(out, leaf, dloss, retain_graph=True)}
    want = lambda: (torch.softmax(logits.float(), -1) - F.one_hot(labels, classes)) * dloss[:, None]
    return case_of(t.caller("cross_entropy", [logits, labels, loss, lse, dloss, dlogits]), peers, [(dlogits, want)], [logits, dlogits])


def linear_cross_entropy(t, tokens, features, classes, held):
    x, w = normal(tokens, features), normal(classes, features) / features ** 0.5
    labels, dloss = torch.randint(classes, (tokens,), device=DEVICE), torch.full((tokens,), 1 / tokens, device=DEVICE)
    logits, dx = torch.empty(held, classes, device=DEVICE, dtype=BF16), torch.empty_like(x)
    loss, lse, dw = torch.empty(tokens, device=DEVICE), torch.empty(tokens, device=DEVICE), torch.zeros(classes, features, device=DEVICE)
    z, dx_of_peer, dw_of_peer = torch.empty_like(logits), torch.empty_like(x), torch.empty(classes, features, device=DEVICE, dtype=BF16)

    def gemms():
        """Computes the same three products with cuBLAS only."""
        for begin in range(0, tokens, held):
            part = slice(begin, begin + held)
            torch.mm(x[part], w.T, out=z)
            torch.mm(z, w, out=dx_of_peer[part])
            torch.mm(z.T, x[part], out=dw_of_peer)

    run = t.caller("linear_cross_entropy", [x, w, labels, logits, loss, lse, dloss, dx, dw])
    run()
    want = F.cross_entropy((x[:1024] @ w.T).float(), labels[:1024], reduction="none")
    return run, {"cublas_gemms": gemms}, error_of(loss[:1024], want), {"flops": 6 * tokens * features * classes}


def losses(t):
    for rows, classes in ((16384, 32000), (8192, 128256)):
        what = f"{rows}x{classes} bf16"
        yield "cross_entropy", what, functools.partial(cross_entropy, t, rows, classes)
        yield "cross_entropy_backward", what, functools.partial(cross_entropy_backward, t, rows, classes)
    for held in (1024, 2048, 4096):
        yield "linear_cross_entropy", f"8192x4096x128256 bf16, {held} tokens at a time", functools.partial(linear_cross_entropy, t, 8192, 4096, 128256, held)


def quantise(t, block, rows, cols):
    x, q = normal(rows, cols), torch.empty(rows, cols, device=DEVICE, dtype=torch.uint8)
    down, across = ((1, cols), (1, 128), (128, 128))[block]
    scales = torch.empty(*((rows,) if block == 0 else (rows // down, cols // across)), device=DEVICE)

    def quantised(a):
        tiles = a.float().view(rows // down, down, cols // across, across)
        scale = tiles.abs().amax((1, 3), keepdim=True) / 448
        return (tiles / scale).to(torch.float8_e4m3fn).view(rows, cols), scale

    run = t.caller("quantise_fp8", [x, q, scales], block)
    pairs = [(scales, lambda: quantised(x)[1].view(scales.shape)), (q.view(torch.float8_e4m3fn), lambda: quantised(x)[0])]
    return case_of(run, {"torch.compile": compiled(quantised, x)}, pairs, [x, q])


def quantisations(t):
    for block, name in enumerate(("row", "1x128", "128x128")):
        for rows, cols in ((16384, 8192), (32768, 4096)):
            yield "quantise_fp8", f"{name} {rows}x{cols} bf16", functools.partial(quantise, t, block, rows, cols)


def hadamard(t, rows, cols):
    x = normal(rows, cols)
    y = torch.empty_like(x)

    def transformed(a):
        v, stride = a.clone(), 1
        while stride < cols:
            pairs = v.view(-1, cols // (2 * stride), 2, stride)
            v, stride = torch.stack((pairs[:, :, 0] + pairs[:, :, 1], pairs[:, :, 0] - pairs[:, :, 1]), 2).view(-1, cols), 2 * stride
        return v / cols ** 0.5

    run = t.caller("hadamard", [x, y], cols ** -0.5)
    return case_of(run, {"torch.compile": compiled(lambda a: transformed(a.float()).to(BF16), x)}, [(y[:1024], lambda: transformed(x[:1024].double()))], [x, y])


def hadamards(t):
    for k in (6, 7, 9, 10, 11, 12, 13, 14, 15):
        yield "hadamard", f"{1 << 27 >> k}x{1 << k} bf16", functools.partial(hadamard, t, 1 << 27 >> k, 1 << k)


def embedding(t, rows, cols, tokens):
    table, ids, y = normal(rows, cols), torch.randint(rows, (tokens,), device=DEVICE, dtype=torch.int32), torch.empty(tokens, cols, device=DEVICE, dtype=BF16)
    return case_of(t.caller("embedding", [table, ids, y]), {"torch": lambda: F.embedding(ids, table)}, [(y, lambda: F.embedding(ids, table))], [y, y])


def embedding_backward(t, rows, cols, tokens, order):
    dy, ids, dtable = normal(tokens, cols), torch.randint(rows, (tokens,), device=DEVICE, dtype=torch.int32), torch.zeros(rows, cols, device=DEVICE)
    other = torch.zeros_like(dtable)
    peers = {"torch.index_add": lambda: other.index_add_(0, ids, dy.float())}
    want = lambda: torch.zeros_like(dtable, dtype=torch.float64).index_add_(0, ids, dy.double())
    return case_of(t.caller("embedding", [dy, ids, dtable], order), peers, [(dtable, want)], [dy, dtable, dtable])


def embeddings(t):
    for cols in (512, 4096):
        tokens = (1 << 27) // cols
        yield "embedding", f"{tokens} of 128256x{cols} bf16", functools.partial(embedding, t, 128256, cols, tokens)
        for order, name in ((1, "any order"), (2, "in order")):
            yield "embedding_backward", f"16384 of 32000x{cols} bf16 {name}", functools.partial(embedding_backward, t, 32000, cols, 16384, order)


def adamw(t, count, elements, dtype, step=1):
    def parameters():
        w, g = [normal(elements, dtype=dtype) for _ in range(count)], [normal(elements, dtype=dtype) for _ in range(count)]
        return w, g, [torch.zeros(elements, device=DEVICE) for _ in w], [torch.zeros(elements, device=DEVICE) for _ in w]

    w, g, m, v = parameters()
    first = w[0].double() * (1 - 1e-3 * 1e-2) - 1e-3 * g[0].double() / (g[0].double().abs() + 1e-8)
    run = t.caller("adamw", [x for four in zip(w, g, m, v) for x in four], step)
    leaves = [torch.nn.Parameter(x.clone()) for x in w]
    for leaf, gradient in zip(leaves, g):
        leaf.grad = gradient
    torch_adamw = torch.optim.AdamW(leaves, lr=1e-3, weight_decay=1e-2, fused=True)
    return case_of(run, {"torch.fused": torch_adamw.step}, [(w[0], lambda: first)], [*w, *w, *g, *m, *m, *v, *v])


def optimizers(t):
    for count, elements, dtype in ((1000, 1 << 18, F32), (1000, 1 << 18, BF16), (1000, 100003, BF16), (200, 1 << 21, BF16)):
        yield "adamw", f"{count} tensors of {elements} {named(dtype)}", functools.partial(adamw, t, count, elements, dtype)
    yield "adamw", "200 tensors of 2097152 bf16 stochastic", functools.partial(adamw, t, 200, 1 << 21, BF16, -1)


SUITES = [softmaxes, norms, gated_activations, ropes, losses, quantisations, hadamards, embeddings, optimizers]
