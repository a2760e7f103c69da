"""MoE layers for bench/peers.py: models, lengths and distributions, with pipelines of torch._grouped_mm as peers.

Both sides get the same logits: the router's GEMM is not timed. The library routes, permutes, multiplies twice and combines; so
does each peer, eagerly or compiled. A row states the bytes and FLOPs of the lower bound, which counts the weights of experts with rows only.
"""
import functools

import torch
import torch._functorch.config
import torch.nn.functional as F

torch._functorch.config.donated_buffer = False  # a compiled backward is called many times

DEVICE = torch.device("cuda:0")
# h, intermediate size, experts, choices.
MODELS = {"mixtral": (4096, 14336, 8, 2), "qwen3_30b": (2048, 768, 128, 8), "deepseek_v3": (7168, 2048, 256, 8)}
ROUTED = ((8, 2), (128, 8), (256, 8), (512, 10))  # experts, choices
LENGTHS = (128, 1024, 4096, 16384)


def error_of(got, want):
    return ((got.double() - want.double()).norm() / want.double().norm()).item()


def logits_of(tokens, experts, distribution="uniform"):
    z = torch.randn(tokens, experts, device=DEVICE)
    if distribution == "zipf":
        z -= 1.2 * torch.log(torch.arange(1, experts + 1, device=DEVICE, dtype=torch.float32))
    if distribution == "one":
        z[:, 0] += 100
    return z


def route(z, k):
    p, ids = torch.topk(torch.softmax(z, -1), k, -1)
    return p / p.sum(-1, keepdim=True), ids


def place(ids, experts):
    """Returns the order of the choices by expert, and the end of each expert's rows."""
    flat = ids.reshape(-1)
    order = torch.argsort(flat, stable=True)
    # Avoid bincount, which waits for the device and breaks a compiler's graph.
    counts = torch.zeros(experts, dtype=torch.int64, device=flat.device).scatter_add(0, flat, torch.ones_like(flat))
    return order, torch.cumsum(counts, 0).to(torch.int32)


def grouped_layer(x, z, up, down, k):
    """Runs a pipeline of torch._grouped_mm."""
    tokens, experts = z.shape
    w, ids = route(z, k)
    order, ends = place(ids, experts)
    hidden = torch._grouped_mm(x[order // k], up.transpose(1, 2), offs=ends)
    gate, value = hidden.chunk(2, -1)
    rows = torch._grouped_mm(F.silu(gate) * value, down.transpose(1, 2), offs=ends)
    back = torch.empty_like(rows)
    back[order] = rows
    return (back.reshape(tokens, k, -1) * w[..., None].to(x.dtype)).sum(1)


def reference(x, z, up, down, k, tokens):
    """Computes a few tokens in fp32."""
    w, ids = route(z[tokens], k)
    out = torch.zeros(len(tokens), x.shape[1], device=DEVICE)
    for i, t in enumerate(tokens):
        for j in range(k):
            e = int(ids[i, j])
            gate, value = (up[e].float() @ x[t].float()).chunk(2)
            out[i] += w[i, j] * (down[e].float() @ (F.silu(gate) * value).to(x.dtype).float())
    return out


def weights_of(h, i, experts, count=[{}]):
    """Keeps one model at a time: the largest has 22 GB."""
    key = (h, i, experts)
    if key not in count[0]:
        count[0].clear()
        up = torch.empty(experts, 2 * i, h, device=DEVICE, dtype=torch.bfloat16).normal_(std=h ** -0.5)
        count[0][key] = up, torch.empty(experts, h, i, device=DEVICE, dtype=torch.bfloat16).normal_(std=i ** -0.5)
    return count[0][key]


def layer(t, name, model, tokens, distribution="uniform"):
    h, i, experts, k = MODELS[model]
    up, down = weights_of(h, i, experts)
    x, z = torch.randn(tokens, h, device=DEVICE, dtype=torch.bfloat16), logits_of(tokens, experts, distribution)
    y = torch.empty_like(x)
    run = t.caller("moe", [x, z, up, down, y], k)
    run()
    some = torch.linspace(0, tokens - 1, min(tokens, 16), device=DEVICE).long()
    touched = int(torch.unique(route(z, k)[1]).numel())
    work = {"flops": 6 * tokens * k * h * i, "facts": {"touched": touched, "floor_bytes": 6 * touched * h * i + 4 * tokens * h * (1 + k) + 4 * tokens * k * i}}
    compiled = torch.compile(grouped_layer)
    peers = {"grouped_mm": lambda: grouped_layer(x, z, up, down, k), "grouped_mm_compiled": lambda: compiled(x, z, up, down, k)}
    return run, peers, error_of(y[some], reference(x, z, up, down, k, some)), work


LARGEST = 448.0  # of float8_e4m3fn


def quantised(x, scale=None):
    """Returns x in 8 bits, and the scale of each row if none is given."""
    if scale is None:
        scale = x.float().abs().amax(-1) / LARGEST
        scale = torch.where(scale == 0, 1.0, scale)
    return (x.float() / (scale[..., None] if scale.dim() else scale)).clamp(-LARGEST, LARGEST).to(torch.float8_e4m3fn), scale


def quantised_weights(h, i, experts, scaling, count=[{}]):
    """Quantises the weights of weights_of, one model at a time: (q, scales) of up and down."""
    key = (h, i, experts, scaling)
    if key not in count[0]:
        count[0].clear()
        made = []
        for w in weights_of(h, i, experts):
            parts = [quantised(e, None if scaling == "row" else e.float().abs().amax() / LARGEST) for e in w]
            made.append((torch.stack([q for q, _ in parts]), torch.stack([s for _, s in parts])))
        count[0][key] = made
    return count[0][key]


def grouped_fp8_layer(x, z, up, down, k):
    """Runs a pipeline of torch._scaled_grouped_mm with row scales; up and down are pairs of values and scales."""
    tokens, experts = z.shape
    w, ids = route(z, k)
    order, ends = place(ids, experts)

    def product(rows, weights):
        q, scale = quantised(rows)
        return torch._scaled_grouped_mm(q, weights[0].transpose(1, 2), scale, weights[1], offs=ends, out_dtype=torch.bfloat16, use_fast_accum=True)

    gate, value = product(x[order // k], up).chunk(2, -1)
    rows = product(F.silu(gate) * value, down)
    back = torch.empty_like(rows)
    back[order] = rows
    return (back.reshape(tokens, k, -1) * w[..., None].to(x.dtype)).sum(1)


def fp8_layer(t, model, tokens, scaling, promotes=False, distribution="uniform"):
    """Compares 8-bit experts with 16-bit ones and with torch's."""
    h, i, experts, k = MODELS[model]
    (up, up_scales), (down, down_scales) = quantised_weights(h, i, experts, scaling)
    x, z = torch.randn(tokens, h, device=DEVICE, dtype=torch.bfloat16), logits_of(tokens, experts, distribution)
    y, plain = torch.empty_like(x), torch.empty_like(x)
    given = [] if scaling == "row" else [torch.full((1,), value, device=DEVICE) for value in (5 / LARGEST, 8 / LARGEST)]
    run = t.caller("moe_fp8", [x, z, up.view(torch.uint8), down.view(torch.uint8), y, up_scales, down_scales, *given], k + 16 * promotes)
    run()
    some = torch.linspace(0, tokens - 1, min(tokens, 16), device=DEVICE).long()
    want = torch.zeros(len(some), h, device=DEVICE)
    w, ids = route(z[some], k)
    for n, token in enumerate(some):
        for j in range(k):
            e = int(ids[n, j])
            q, scale = quantised(x[token], given[0][0] if given else None)
            gate, value = (up[e].float() @ (q.float() * scale) * up_scales[e]).chunk(2)
            a, scale = quantised(F.silu(gate) * value if given else (F.silu(gate) * value).to(x.dtype), given[1][0] if given else None)
            want[n] += w[n, j] * (down[e].float() @ (a.float() * scale)) * down_scales[e]
    touched = int(torch.unique(route(z, k)[1]).numel())
    stored = 2 if scaling == "row" else 0  # bytes of the 16-bit activations between the two GEMMs
    work = {"flops": 6 * tokens * k * h * i,
            "facts": {"touched": touched, "floor_bytes": 3 * touched * h * i + 4 * tokens * h + 5 * tokens * k * h + 2 * (1 + stored) * tokens * k * i}}
    peers = {"bf16": t.caller("moe", [x, z, *weights_of(h, i, experts), plain], k)}
    if scaling == "row":
        peers["scaled_grouped_mm"] = lambda: grouped_fp8_layer(x, z, (up, up_scales), (down, down_scales), k)
    return run, peers, error_of(y[some], want), work


def tiled_layer(t, model, tokens, number):
    """Compares a layer with the tiles of that number (bench/moe_cases.cpp) with the tiles that the library chooses."""
    run, _, error, work = layer(t, "moe_tiles", model, tokens)
    h, i, experts, k = MODELS[model]
    up, down = weights_of(h, i, experts)
    x, z = torch.randn(tokens, h, device=DEVICE, dtype=torch.bfloat16), logits_of(tokens, experts)
    y = torch.empty_like(x)
    tiled = t.caller("moe_tiles", [x, z, up, down, y], k + 16 * number)
    tiled()
    some = torch.linspace(0, tokens - 1, 16, device=DEVICE).long()
    return tiled, {"chosen": run}, error_of(y[some], reference(x, z, up, down, k, some)), work


def routing_tensors(tokens, experts, k):
    def whole(*shape):
        return torch.empty(*shape, device=DEVICE, dtype=torch.int32)

    return [whole(tokens, k), torch.empty(tokens, k, device=DEVICE), whole(tokens, k), whole(tokens * k), whole(experts + 1), whole(4, experts + 1)]


def router(t, experts, k, tokens):
    z, out = logits_of(tokens, experts), routing_tensors(tokens, experts, k)
    run = t.caller("moe_router", [z, *out], k)
    run()
    ids = route(z, k)[1]
    order, ends = place(ids, experts)
    error = float((out[0].long() != ids).sum() + (out[3].long() != order).sum() + (out[4][1:] != ends).sum())

    def eager():
        _, chosen = route(z, k)
        return place(chosen, experts)

    return run, {"eager": eager, "compiled": torch.compile(eager)}, error, {"bytes": 4 * tokens * experts + 16 * tokens * k}


def deepseek_router(t, tokens):
    z, bias, out = logits_of(tokens, 256), torch.randn(256, device=DEVICE) * 0.1, routing_tensors(tokens, 256, 8)
    run = t.caller("moe_router_deepseek_v3", [z, *out, bias])
    run()

    def eager():
        s = torch.sigmoid(z)
        c = (s + bias).reshape(tokens, 8, 32)
        kept = torch.topk(torch.topk(c, 2, -1).values.sum(-1), 4, -1).indices
        mask = torch.zeros(tokens, 8, device=DEVICE, dtype=torch.bool).scatter_(1, kept, True)
        ids = torch.topk(torch.where(mask[..., None], c, float("-inf")).reshape(tokens, 256), 8, -1).indices
        w = s.gather(1, ids)
        return 2.5 * w / w.sum(-1, keepdim=True), ids, place(ids, 256)

    return run, {"eager": eager, "compiled": torch.compile(eager)}, error_of(out[1], eager()[0]), {"bytes": 4 * tokens * 256 + 128 * tokens}


def routing_form(t, tokens, block, tiles, is_one_launch):
    """Compares routing of 256 experts in another form with the form that the layer uses."""
    experts, k = 256, 8
    z, out = logits_of(tokens, experts), routing_tensors(tokens, experts, k)
    counts = torch.empty((tokens + block - 1) // block, experts, device=DEVICE, dtype=torch.uint16)
    run = t.caller("moe_routing_form", [z, *out, counts], block + 1000 * tiles + 100000 * is_one_launch)
    run()
    of_layer = routing_tensors(tokens, experts, k)
    layer = t.caller("moe_router", [z, *of_layer], k)
    layer()
    error = sum(float((a != b).sum()) for a, b in zip(out, of_layer))
    return run, {"layer": layer}, error, {"bytes": 4 * tokens * experts + 16 * tokens * k}


def backward(t, model, tokens):
    h, i, experts, k = MODELS[model]
    up, down = weights_of(h, i, experts)
    x, z = torch.randn(tokens, h, device=DEVICE, dtype=torch.bfloat16), logits_of(tokens, experts)
    dy, y = torch.randn_like(x), torch.empty_like(x)
    saved = [*routing_tensors(tokens, experts, k), torch.empty(tokens * k, 2 * i, device=DEVICE, dtype=torch.bfloat16)]
    dx, dz, dup, ddown = torch.empty_like(x), torch.empty_like(z), torch.empty_like(up), torch.empty_like(down)
    t.caller("moe_training_forward", [x, z, up, down, y, *saved], k)()
    run = t.caller("moe_backward", [x, z, up, down, dy, *saved, dx, dz, dup, ddown], k)
    run()
    leaves = [v.detach().requires_grad_() for v in (x, z, up, down)]
    made = []

    def peer(fn):
        def call():
            if fn not in made:
                made.append(fn)
                graphs[fn] = fn(*leaves, k)
            return torch.autograd.grad(graphs[fn], leaves, dy, retain_graph=True)
        return call

    graphs = {}
    peers = {"grouped_mm": peer(grouped_layer), "grouped_mm_compiled": peer(torch.compile(grouped_layer))}
    want = peers["grouped_mm"]()
    errors = {f"{name}_err": error_of(got, of) for name, got, of in zip(("dx", "dz", "dup", "ddown"), (dx, dz, dup, ddown), want)}
    return run, peers, errors, {"flops": 12 * tokens * k * h * i}


def routers(t):
    for experts, k in ROUTED:
        for tokens in (1, 128, 1024, 4096, 16384):
            yield "router", f"T{tokens} E{experts} k{k}", functools.partial(router, t, experts, k, tokens)
    for tokens in (128, 1024, 16384):
        yield "router", f"T{tokens} E256 k8 in 4 of 8 groups", functools.partial(deepseek_router, t, tokens)


def routing_forms(t):
    for tokens, forms in {16384: ((64, 2), (128, 1), (64, 1), (32, 4)), 1024: ((8, 1), (16, 1), (32, 1))}.items():
        for block, tiles in forms:
            for is_one_launch in (False, True):
                name = f"T{tokens} tiles of {block}, {tiles} a program, {1 if is_one_launch else 2} launches"
                yield "router_forms", name, functools.partial(routing_form, t, tokens, block, tiles, is_one_launch)


def layers(t):
    for model in MODELS:
        for tokens in (1, 8, 32):
            yield "moe_decode", f"{model} T{tokens} bf16", functools.partial(layer, t, "moe_decode", model, tokens)
        for tokens in LENGTHS:
            yield "moe", f"{model} T{tokens} bf16", functools.partial(layer, t, "moe", model, tokens)
        for distribution in ("zipf", "one"):
            yield "moe_decode", f"{model} T32 bf16 {distribution}", functools.partial(layer, t, "moe_decode", model, 32, distribution)
            for tokens in (1024, 4096, 16384):
                yield "moe", f"{model} T{tokens} bf16 {distribution}", functools.partial(layer, t, "moe", model, tokens, distribution)


MANY_ROWS, FEW_ROWS = (*range(1, 9), *range(13, 18), 20, 21, 24, 25, 26, 29, 30), (0, 9, 10, 11, 12, 18, 19, 22, 23, 27, 28)  # numbers of tiles in bench/moe_cases.cpp


def fp8_layers(t):
    for model in MODELS:
        for scaling in ("row", "tensor"):
            for tokens in (1, 32, 128, 1024, 4096, 16384):
                yield "moe_fp8", f"{model} T{tokens} e4m3 {scaling}", functools.partial(fp8_layer, t, model, tokens, scaling)
        yield "moe_fp8", f"{model} T4096 e4m3 row promoted", functools.partial(fp8_layer, t, model, 4096, "row", True)
        yield "moe_fp8", f"{model} T4096 e4m3 row zipf", functools.partial(fp8_layer, t, model, 4096, "row", False, "zipf")


def tiles(t):
    for model, tokens, numbers in (("qwen3_30b", 4096, MANY_ROWS), ("qwen3_30b", 16384, MANY_ROWS), ("mixtral", 1024, MANY_ROWS), ("deepseek_v3", 4096, (1, 11, 15, 16, 20, 21, 24, 25, 26, 29, 30)), ("qwen3_30b", 128, FEW_ROWS), ("mixtral", 128, FEW_ROWS), ("qwen3_30b", 1024, FEW_ROWS), ("deepseek_v3", 1024, FEW_ROWS)):
        for number in numbers:
            yield "moe_tiles", f"{model} T{tokens} tiles {number}", functools.partial(tiled_layer, t, model, tokens, number)


def backwards(t):
    for model, lengths in (("qwen3_30b", (4096, 16384)), ("mixtral", (4096,))):
        for tokens in lengths:
            yield "moe_backward", f"{model} T{tokens} bf16", functools.partial(backward, t, model, tokens)


SUITES = [routers, routing_forms, layers, fp8_layers, tiles, backwards]
