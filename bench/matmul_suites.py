"""GEMMs for bench/peers.py: shapes, types and epilogues, with cuBLAS, cuBLASLt and Triton as peers.

A suite yields (name, case, make); make() gives (ours, peers, error, work).
"""
import functools
import math
import os
import random
import sys

import torch

import ladder
import matmul_peers

DEVICE = torch.device("cuda:0")
SEED = int(os.environ.get("TEGULA_BENCH_SEED", "20261129"))  # of the log-uniform shapes
LISTED = ((8192, 8192, 8192), (4096, 4096, 4096), (4096, 14336, 4096), (16384, 4096, 4096), (2048, 2048, 2048), (1024, 1024, 1024), (512, 512, 8192), (128, 4096, 4096), (16, 4096, 14336), (8192, 128, 8192), (1000, 2056, 1096))
LARGE = ((8192, 8192, 8192), (4096, 4096, 4096), (4096, 14336, 4096), (16384, 4096, 4096), (2048, 2048, 2048))
# N, K of the projections of Llama 3 8B and 70B: weights of 33 to 470 MB.
MODELS = ((4096, 4096), (14336, 4096), (4096, 14336), (28672, 8192), (8192, 28672))


def drawn(count=20):
    """Returns multiples of 64 in 64..16384."""
    dice = random.Random(20261120)
    return [tuple(64 * dice.randint(1, 256) for _ in range(3)) for _ in range(count)]


def unaligned(count=20):
    """Returns log-uniform odd extents: no row begins at an address that TMA supports."""
    dice = random.Random(20261120)
    return [tuple(round(2 ** dice.uniform(6, 13)) | 1 for _ in range(3)) for _ in range(count)]



def log_uniform(align, count=40):
    """Returns log-uniform M in 1..20000, N and K in 64..20000 as multiples of `align`, at most 2^41 multiplications and 2^28 elements a matrix."""
    dice = random.Random(f"{SEED} {align}")
    extent = lambda low: math.exp(dice.uniform(math.log(low), math.log(20000)))
    found = []
    while len(found) < count:
        m, n, k = round(extent(1)), *(max(1, round(extent(64) / align)) * align for _ in range(2))
        if m * n * k <= 2**41 and max(m * n, m * k, n * k) <= 2**28:
            found.append((m, n, k))
    return found


# Shapes that were slower than cuBLAS because the choice of tiles lacked a cost (docs/configuration.md): batch, m, n, k, layout.
LOST = ((1, 3000, 3000, 3000, "NN"), (48, 512, 512, 512, "NN"), (1, 2048, 2048, 100000, "NT"), (1, 64, 65537, 64, "NN"), (1, 33, 8200, 2056, "NN"), (1, 1000, 2056, 1096, "NN"))


def error_of(got, want):
    return ((got.double() - want.double()).norm() / want.double().norm()).item()


def random_of(shape, dtype):
    return torch.randn(*shape, device=DEVICE).to(dtype)


def lazily(make, a, b, want, dtype, **options):
    """Returns a peer that is created, tuned and checked at its first call, because not every peer supports every case."""
    made, c = [], torch.empty(want.shape, device=DEVICE, dtype=dtype)

    def run():
        if not made:
            made.append(make(a, b, c, **options))
            made[0]()
            if not error_of(c, want) <= 0.01:
                raise RuntimeError(f"{make.__name__}: error {error_of(c, want)}")
        made[0]()

    return run


def best_of_cublaslt(a, b, want, dtype, **options):
    """Returns peers by name, to be added to those of a case."""
    return {"cublaslt_best8": lazily(matmul_peers.best_of_cublaslt, a, b, want, dtype, **options)}


def plain(t, case, m, n, k, dtype, with_triton=False, number=0.0):
    a, b = random_of((m, k), dtype), random_of((k, n), dtype)
    c, out = torch.full((m, n), float("nan"), device=DEVICE, dtype=dtype), torch.empty(m, n, device=DEVICE, dtype=dtype)
    run = t.caller(case, [a, b, c], number)
    run()
    want = a.float() @ b.float()
    peers = {"cublas": lambda: torch.matmul(a, b, out=out), **best_of_cublaslt(a, b, want, dtype)}
    if with_triton:
        peers["triton"] = lazily(matmul_peers.triton_product, a, b, want, dtype)
    return run, peers, error_of(c, want), {"flops": 2 * m * n * k}


def laid_out(t, batch, m, n, k, layout):
    """Measures A and B that are row-major (N) or column-major (T), and batched if `batch` is above 1."""
    def operand(rows, columns, kind):
        stored = random_of((batch, rows, columns) if kind == "N" else (batch, columns, rows), torch.bfloat16)
        matrices = stored if kind == "N" else stored.transpose(1, 2)
        return matrices if batch > 1 else matrices[0]

    a, b = operand(m, k, layout[0]), operand(k, n, layout[1])
    extents = (batch, m, n) if batch > 1 else (m, n)
    c, out = (torch.full(extents, float("nan"), device=DEVICE, dtype=torch.bfloat16) for _ in range(2))
    run = t.caller("matmul", [a, b, c])
    run()
    want = a.float() @ b.float()
    return run, {"cublas": lambda: torch.matmul(a, b, out=out)}, error_of(c, want), {"flops": 2 * batch * m * n * k}


def tf32(t, m, n, k):
    """Measures tf32. Both operands are K-major, as the tensor cores require for 32-bit elements."""
    a, w = random_of((m, k), torch.float32), random_of((n, k), torch.float32)
    c, out = torch.empty(m, n, device=DEVICE), torch.empty(m, n, device=DEVICE)
    run = t.caller("matmul_tf32", [a, w.t(), c])
    run()
    want = a @ w.t()

    def peer():
        torch.backends.cuda.matmul.allow_tf32 = True
        try:
            torch.matmul(a, w.t(), out=out)
        finally:
            torch.backends.cuda.matmul.allow_tf32 = False

    return run, {"cublas": peer, **best_of_cublaslt(a, w.t(), want, torch.float32, tf32=True)}, error_of(c, want), {"flops": 2 * m * n * k}


def int8(t, m, n, k):
    a, w = (torch.randint(-128, 128, shape, device=DEVICE, dtype=torch.int8) for shape in ((m, k), (n, k)))
    c = torch.empty(m, n, device=DEVICE, dtype=torch.int32)
    run = t.caller("matmul", [a, w.t(), c])
    run()
    want = torch._int_mm(a, w.t())
    return run, {"cublas": lambda: torch._int_mm(a, w.t()), **best_of_cublaslt(a, w.t(), want, torch.int32)}, error_of(c, want), {"flops": 2 * m * n * k}


def fp8(t, case, m, n, k):
    a, w = (random_of(shape, torch.float8_e4m3fn) for shape in ((m, k), (n, k)))
    c = torch.empty(m, n, device=DEVICE, dtype=torch.bfloat16)
    rows, columns = torch.rand(m, device=DEVICE) + 0.5, torch.rand(n, device=DEVICE) + 0.5
    one = torch.ones((), device=DEVICE)
    is_fast = case != "matmul_fp8_promoted"
    scales = [rows, columns] if case == "matmul_fp8_rowwise" else []
    run = t.caller(case, [a.view(torch.uint8), w.view(torch.uint8).t(), c, *scales], 1.0)
    run()
    unscaled = a.float() @ w.t().float()
    want = unscaled * rows[:, None] * columns[None, :] if scales else unscaled

    def tensorwise():
        torch._scaled_mm(a, w.t(), scale_a=one, scale_b=one, out_dtype=torch.bfloat16, use_fast_accum=is_fast)

    def rowwise():
        torch._scaled_mm(a, w.t(), scale_a=rows[:, None], scale_b=columns[None, :], out_dtype=torch.bfloat16, use_fast_accum=True)

    # PyTorch's row-wise GEMM is cuBLASLt's or CUTLASS's, depending on its version, and always uses fast accumulation.
    peers = {"cublaslt": tensorwise, **best_of_cublaslt(a, w.t(), unscaled, torch.bfloat16, scales=(one, one), fast=is_fast)}
    if is_fast:
        peers["torch_rowwise"] = rowwise
    return run, peers, error_of(c, want), {"flops": 2 * m * n * k}


def bias_gelu_residual(t, case, m, n, k):
    """Measures an epilogue; the peer of the reported ratio is the library's GEMM without an epilogue."""
    gelu = functools.partial(torch.nn.functional.gelu, approximate="tanh" if "tanh" in case else "none")
    a, b = random_of((m, k), torch.bfloat16), random_of((k, n), torch.bfloat16)
    bias, residual = random_of((n,), torch.bfloat16), random_of((m, n), torch.bfloat16)
    c, bare, out = (torch.empty(m, n, device=DEVICE, dtype=torch.bfloat16) for _ in range(3))
    run, without = t.caller(case, [a, b, c, bias, residual]), t.caller("matmul", [a, b, bare])
    run()
    want = gelu((a.float() @ b.float()) + bias.float()) + residual.float()

    def torch_way():
        torch.addmm(bias, a, b, out=out)
        gelu(out).add_(residual)

    return run, {"ours_plain": without, "torch": torch_way}, error_of(c, want), {"flops": 2 * m * n * k}


def swiglu(t, m, n, k):
    """Compares with the library's product of both halves side by side."""
    a, w = random_of((m, k), torch.bfloat16), random_of((k, 2 * n), torch.bfloat16)
    c, both = torch.empty(m, n, device=DEVICE, dtype=torch.bfloat16), torch.empty(m, 2 * n, device=DEVICE, dtype=torch.bfloat16)
    run, without = t.caller("matmul_swiglu", [a, w[:, :n], w[:, n:], c]), t.caller("matmul", [a, w, both])
    run()
    product = a.float() @ w.float()
    want = torch.nn.functional.silu(product[:, :n]) * product[:, n:]

    def torch_way():
        torch.matmul(a, w, out=both)
        torch.nn.functional.silu(both[:, :n]) * both[:, n:]

    return run, {"ours_plain": without, "torch": torch_way}, error_of(c, want), {"flops": 4 * m * n * k}


def g0(t, m, n, k):
    a, w = random_of((m, k), torch.bfloat16), random_of((n, k), torch.bfloat16)
    c, out = torch.full((m, n), float("nan"), device=DEVICE, dtype=torch.bfloat16), torch.empty(m, n, device=DEVICE, dtype=torch.bfloat16)
    run = t.caller("g0_gemm", [a, w, c])
    run()
    return run, {"cublas": lambda: torch.matmul(a, w.t(), out=out)}, error_of(c, a.float() @ w.t().float()), {"flops": 2 * m * n * k}


def text(m, n, k):
    return f"{m}x{n}x{k}"


def matmul(t):
    for shape in LISTED:
        yield "matmul", f"{text(*shape)} bf16 NN", functools.partial(plain, t, "matmul", *shape, torch.bfloat16, with_triton=True)
    for shape in LARGE[:2]:
        yield "g0_gemm", f"{text(*shape)} bf16 NT wgmma, hand-written SIMT", functools.partial(g0, t, *shape)
    for shape in drawn():
        yield "matmul_drawn", f"{text(*shape)} bf16 NN", functools.partial(plain, t, "matmul", *shape, torch.bfloat16)
    for shape in unaligned():
        yield "matmul_unaligned", f"{text(*shape)} bf16 NN", functools.partial(plain, t, "matmul", *shape, torch.bfloat16)
    for n, k in MODELS:
        for m in (1, 16, 64):
            yield "matmul_few_rows", f"{text(m, n, k)} bf16 NN", functools.partial(plain, t, "matmul", m, n, k, torch.bfloat16)


def matmul_lost(t):
    for batch, m, n, k, layout in LOST:
        yield "matmul_lost", f"{text(m, n, k)} bf16 {layout}" + (f", batch {batch}" if batch > 1 else ""), functools.partial(laid_out, t, batch, m, n, k, layout)
    yield "matmul_lost", "2048x2048x100000 tf32 NT", functools.partial(tf32, t, 2048, 2048, 100000)


# Shapes with few or ragged rows, few columns or a k beyond L2 for which an earlier choice of tiles was slow.
RAGGED = ((130, 5120, 13824), (5000, 640, 10240), (3000, 3000, 3000), (33, 8200, 2056))
RAGGED_FP8 = ((130, 5120, 13824), (2500, 6992, 1296), (1536, 1536, 30000))


def matmul_random(t):
    for shape in RAGGED:
        yield "matmul_ragged", f"{text(*shape)} bf16 NN", functools.partial(plain, t, "matmul", *shape, torch.bfloat16)
    yield "matmul_ragged", "64x65537x64 bf16 NT", functools.partial(laid_out, t, 1, 64, 65537, 64, "NT")
    yield "matmul_ragged", "64x65537x64 tf32 NT", functools.partial(tf32, t, 64, 65537, 64)
    yield "matmul_ragged", "5x3x70001 bf16 NN", functools.partial(plain, t, "matmul", 5, 3, 70001, torch.bfloat16)
    for shape in RAGGED_FP8:
        yield "matmul_ragged", f"{text(*shape)} e4m3 NT", functools.partial(fp8, t, "matmul_fp8", *shape)
    print(f"matmul_random: seed {SEED} (TEGULA_BENCH_SEED)", file=sys.stderr)
    for shape in log_uniform(8):
        yield "matmul_random", f"{text(*shape)} bf16 NN", functools.partial(plain, t, "matmul", *shape, torch.bfloat16)
    for shape in log_uniform(16):
        yield "matmul_random", f"{text(*shape)} e4m3 NT", functools.partial(fp8, t, "matmul_fp8", *shape)


def matmul_types(t):
    for shape in LARGE:
        yield "matmul_f16", f"{text(*shape)} f16 NN", functools.partial(plain, t, "matmul", *shape, torch.float16)
        yield "matmul_tf32", f"{text(*shape)} tf32 NT", functools.partial(tf32, t, *shape)
        yield "matmul_int8", f"{text(*shape)} int8 NT", functools.partial(int8, t, *shape)


def matmul_fp8(t):
    for case in ("matmul_fp8", "matmul_fp8_promoted", "matmul_fp8_rowwise"):
        for shape in LARGE:
            yield case, f"{text(*shape)} e4m3 NT", functools.partial(fp8, t, case, *shape)


def matmul_epilogue(t):
    for shape in ((8192, 8192, 8192), (4096, 4096, 4096), (4096, 14336, 4096), (8192, 8192, 1024)):
        for case in ("matmul_bias_gelu_residual", "matmul_bias_gelu_tanh_residual"):
            yield case, f"{text(*shape)} bf16 NN", functools.partial(bias_gelu_residual, t, case, *shape)
    for shape in ((4096, 4096, 4096), (4096, 14336, 4096), (8192, 4096, 8192)):
        yield "matmul_swiglu", f"{text(*shape)} bf16 NN", functools.partial(swiglu, t, *shape)


def rungs(t):
    """Yields the rungs of bench/ladder.py. They are not among SUITES, because they measure plans of one kernel, not the library's choices."""
    for number in range(len(ladder.rungs())):
        for shape in LARGE[:3]:
            yield "ladder", f"{number}: {text(*shape)} bf16 NN", functools.partial(plain, t, "ladder", *shape, torch.bfloat16, number=number)


SUITES = [matmul, matmul_lost, matmul_random, matmul_types, matmul_fp8, matmul_epilogue]
