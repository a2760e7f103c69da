"""Triton's tutorials for bench/peers.py: the kernels of examples/triton compared with those of bench/triton_kernels.py. Rows of these suites
form the table of docs/triton.md (tools/dev/triton_page.py).

A suite yields (name, case, make); make() gives (ours, peers, error, work).
"""
import functools

import torch
import torch.nn.functional as F

import triton_kernels as peer
from row_suites import DEVICE, error_of, gradients

F16, F32 = torch.float16, torch.float32


def normal(*shape, dtype=F32):
    return torch.randn(*shape, device=DEVICE).to(dtype)


def pair(t, case, ours, theirs, results, work, number=0.0):
    """`theirs`: the call of the peer; `results`: our tensors, the peer's tensors, and the references."""
    run = t.caller(case, ours, number)
    run()
    theirs()
    errors = {}
    for i, (mine, other, want) in enumerate(results):
        wanted = want()
        errors[f"max_err{i or ''}"], errors[f"triton_err{i or ''}"] = error_of(mine, wanted), error_of(other, wanted)
    return run, {"triton": theirs}, errors, work


def elementwise(t, case, n, count, theirs, want, number=0.0):
    tensors = [torch.rand(n, device=DEVICE) for _ in range(count)]
    y, other = torch.empty(n, device=DEVICE), torch.empty(n, device=DEVICE)
    return pair(t, case, [*tensors, y], lambda: theirs(*tensors, other), [(y, other, lambda: want(*tensors))], {"bytes": 4 * n * (count + 1)}, number)


def dropout(t, n):
    """Compares the means of 2^26 numbers, because both sides draw different random numbers."""
    x, y, other = torch.ones(n, device=DEVICE), torch.empty(n, device=DEVICE), torch.empty(n, device=DEVICE)
    mean = lambda a: a.double().mean().view(1)
    run = t.caller("triton_04_dropout", [x, y], 7)
    theirs = lambda: peer.dropout(x, other, 7)
    run()
    theirs()
    errors = {"max_err": error_of(mean(y), mean(x)), "triton_err": error_of(mean(other), mean(x))}
    return run, {"triton": theirs}, errors, {"bytes": 8 * n}


def softmax(t, rows, columns):
    x = normal(rows, columns)
    y, other = torch.empty_like(x), torch.empty_like(x)
    want = lambda: torch.softmax(x.double(), -1)
    return pair(t, "triton_02_softmax", [x, y], lambda: peer.softmax(x, other), [(y, other, want)], {"bytes": 8 * x.numel()})


def matmul(t, case, n, is_b_transposed, theirs, want):
    a, b = normal(n, n, dtype=F16), normal(n, n, dtype=F16)
    c, other = torch.empty_like(a), torch.empty_like(a)
    product = lambda: want(a.float() @ (b.T if is_b_transposed else b).float())
    return pair(t, case, [a, b, c], lambda: theirs(a, b, other), [(c, other, product)], {"flops": 2 * n ** 3})


def grouped_gemm(t, sizes):
    """Square matrices, as in the tutorial."""
    a, b = ([normal(n, n, dtype=F16) for n in sizes] for _ in range(2))
    c, other = ([torch.empty_like(x) for x in a] for _ in range(2))
    table = lambda results: torch.tensor([[x.data_ptr() for x in row] for row in zip(a, b, results)], device=DEVICE)
    shapes = torch.tensor([[n, n, n] for n in sizes], device=DEVICE, dtype=torch.int32)
    eighths = torch.tensor([[n, n // 8, n // 8] for n in sizes], device=DEVICE, dtype=torch.int32)
    addresses = table(other)
    results = [(c[i], other[i], lambda i=i: a[i].float() @ b[i].float()) for i in (0, -1)]
    programs = 2 * torch.cuda.get_device_properties(DEVICE).multi_processor_count
    return pair(t, "triton_08_grouped_gemm", [table(c), eighths], lambda: peer.grouped_gemm(addresses, shapes), results,
                {"flops": sum(2 * n ** 3 for n in sizes)}, programs)


def layer_norm(t, rows, n, eps=1e-5):
    x, w, b = normal(rows, n, dtype=F16), normal(n, dtype=F16), normal(n, dtype=F16)
    outs = [[torch.empty_like(x), torch.empty(rows, device=DEVICE), torch.empty(rows, device=DEVICE)] for _ in range(2)]
    want = lambda: F.layer_norm(x.double(), (n,), w.double(), b.double(), eps)
    return pair(t, "triton_05_layer_norm", [x, w, b, *outs[0]], lambda: peer.layer_norm(x, w, b, *outs[1], eps), [(outs[0][0], outs[1][0], want)], {"bytes": 4 * x.numel()}, eps)


def layer_norm_backward(t, rows, n, eps=1e-5):
    x, w, b, dy = normal(rows, n, dtype=F16), normal(n, dtype=F16), normal(n, dtype=F16), normal(rows, n, dtype=F16)
    mean, rstd = x.float().mean(-1), torch.rsqrt(x.float().var(-1, correction=0) + eps)
    # Programs per SM: Triton's have eight warps, ours one warp per 1,024 columns.
    sms = torch.cuda.get_device_properties(DEVICE).multi_processor_count
    made = lambda of_sm: [torch.empty_like(x), *(torch.empty(of_sm * sms, n, device=DEVICE) for _ in range(2)), torch.empty_like(w), torch.empty_like(w)]
    ours, theirs = made(max(2, 8192 // n)), made(2)
    want = functools.cache(lambda: gradients(lambda a, c, d: F.layer_norm(a, (n,), c, d, eps), (x, w, b), dy))
    given = [dy, x, w, mean, rstd]
    results = [(ours[0], theirs[0], lambda: want()[0]), (ours[3], theirs[3], lambda: want()[1]), (ours[4], theirs[4], lambda: want()[2])]
    return pair(t, "triton_05_layer_norm_backward", given + ours, lambda: peer.layer_norm_backward(*given, *theirs), results, {"bytes": 6 * x.numel()})


def attention(t, length, dim, is_causal):
    batches = (1 << 20) // length // (dim // 64)
    q, k, v = (normal(batches, length, dim, dtype=F16) for _ in range(3))
    o, other = torch.empty_like(q), torch.empty_like(q)
    want = lambda: F.scaled_dot_product_attention(q[:4].float(), k[:4].float(), v[:4].float(), is_causal=is_causal)
    flops = 4 * batches * length ** 2 * dim // (2 if is_causal else 1)
    return pair(t, "triton_06_attention", [q, k, v, o], lambda: peer.attention(q, k, v, other, is_causal), [(o[:4], other[:4], want)], {"flops": flops}, is_causal)


def block_scaled_matmul(t, n):
    a, b = (normal(n, n).to(torch.float8_e4m3fn) for _ in range(2))
    a_scales, b_scales = (torch.rand(n, n // 128, device=DEVICE) for _ in range(2))
    c, other = torch.empty(n, n, device=DEVICE, dtype=F16), torch.empty(n, n, device=DEVICE, dtype=F16)
    scaled = lambda x, s: x[:1024].float() * s[:1024].repeat_interleave(128, 1)
    want = lambda: scaled(a, a_scales) @ (b.float() * b_scales.repeat_interleave(128, 1)).T
    ours = [a.view(torch.uint8), a_scales, b.view(torch.uint8), b_scales, c]
    return pair(t, "triton_10_block_scaled_matmul", ours, lambda: peer.block_scaled_matmul(a, a_scales, b, b_scales, other), [(c[:1024], other[:1024], want)], {"flops": 2 * n ** 3})


def leaky(x):
    return F.leaky_relu(x, 0.01)


def tutorials(t):
    n = 1 << 26
    yield "triton_01_vector_add", "2^26 f32", functools.partial(elementwise, t, "triton_01_vector_add", n, 2, peer.vector_add, torch.add)
    for columns in (1024, 8192):
        yield "triton_02_softmax", f"{n // columns} x {columns} f32", functools.partial(softmax, t, n // columns, columns)
    for size in (2048, 4096, 8192):
        yield "triton_03_matmul", f"{size}^3 f16", functools.partial(matmul, t, "triton_03_matmul", size, False, peer.matmul, leaky)
    yield "triton_04_dropout", "2^26 f32", functools.partial(dropout, t, n)
    for rows, columns in ((16384, 4096), (32768, 1024)):
        yield "triton_05_layer_norm", f"{rows} x {columns} f16", functools.partial(layer_norm, t, rows, columns)
        yield "triton_05_layer_norm_backward", f"{rows} x {columns} f16", functools.partial(layer_norm_backward, t, rows, columns)
    for dim in (64, 128):
        for is_causal in (False, True):
            yield "triton_06_attention", f"{'causal' if is_causal else 'full'}, 4096 x {dim} f16", functools.partial(attention, t, 4096, dim, is_causal)
    yield "triton_07_extern_function", "2^26 f32", functools.partial(elementwise, t, "triton_07_extern_function", n, 1, peer.extern_function, torch.asin)
    for sizes in ((1024, 512, 256, 128), (4096,) * 4):
        yield "triton_08_grouped_gemm", f"{', '.join(map(str, sizes))} f16", functools.partial(grouped_gemm, t, sizes)
    for size in (4096, 8192):
        yield "triton_09_persistent_matmul", f"{size}^3 f16", functools.partial(matmul, t, "triton_09_persistent_matmul", size, True, peer.persistent_matmul, lambda x: x)
    for size in (4096, 8192):
        yield "triton_10_block_scaled_matmul", f"{size}^3 e4m3", functools.partial(block_scaled_matmul, t, size)


SUITES = [tutorials]
