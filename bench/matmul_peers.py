"""GEMM peers that PyTorch does not provide: the best of cuBLASLt's first heuristics, and a Triton kernel.

Matrices are A [m, k] and C [m, n], row-major, and B [k, n] with either dimension contiguous. Each function returns a function without arguments that computes C
on the current stream.
"""
import ctypes
import statistics

import torch
import triton
import triton.language as tl

# cublasLt.h, library_types.h, cublas_api.h
TRANS_A, A_SCALE, B_SCALE, FAST_ACCUM, MOST_WORKSPACE = 3, 17, 18, 25, 1
TYPES = {torch.float32: 0, torch.float16: 2, torch.int8: 3, torch.int32: 10, torch.bfloat16: 14, torch.float8_e4m3fn: 28}
COMPUTE_32F, COMPUTE_32I, COMPUTE_TF32 = 68, 72, 77
HEURISTICS, WORKSPACE_BYTES = 8, 64 << 20


class Heuristic(ctypes.Structure):
    """cublasLtMatmulHeuristicResult_t"""

    _fields_ = [("algo", ctypes.c_uint64 * 8), ("workspace", ctypes.c_size_t), ("state", ctypes.c_int), ("waves", ctypes.c_float), ("reserved", ctypes.c_int * 4)]


class Lt:
    """Returns the library that PyTorch has loaded."""

    def __init__(self):
        with open("/proc/self/maps") as maps:
            self.lib = ctypes.CDLL(next(line.split()[-1] for line in maps if "libcublasLt.so" in line))
        self.handle = self.make("Create")

    def call(self, name, *args):
        status = getattr(self.lib, "cublasLt" + name)(*args)
        if status != 0:
            raise RuntimeError(f"cublasLt{name}: status {status}")

    def make(self, name, *args):
        made = ctypes.c_void_p()
        self.call(name, ctypes.byref(made), *args)
        return made

    def set(self, what, desc, attribute, value):
        self.call(what + "SetAttribute", desc, attribute, ctypes.byref(value), ctypes.sizeof(value))

    def layout(self, dtype, rows, columns):
        """Creates the layout of a column-major, contiguous matrix."""
        return self.make("MatrixLayoutCreate", TYPES[dtype], ctypes.c_uint64(rows), ctypes.c_uint64(columns), ctypes.c_int64(rows))


class LtProduct:
    """Computes C^T = B^T A^T, because cuBLAS's matrices are column-major."""

    lt = None

    def __init__(self, a, b, c, tf32=False, scales=None, fast=False):
        LtProduct.lt = LtProduct.lt or Lt()
        self.tensors = a, b, c, scales
        (m, k), n = a.shape, b.shape[1]
        is_integer = c.dtype == torch.int32
        compute = COMPUTE_32I if is_integer else COMPUTE_TF32 if tf32 else COMPUTE_32F
        self.one, self.zero = ((ctypes.c_int32 if is_integer else ctypes.c_float)(v) for v in (1, 0))
        self.desc = self.lt.make("MatmulDescCreate", compute, TYPES[torch.int32 if is_integer else torch.float32])
        along_k = b.stride(0) == 1
        self.lt.set("MatmulDesc", self.desc, TRANS_A, ctypes.c_int32(along_k))
        if scales:
            self.lt.set("MatmulDesc", self.desc, A_SCALE, ctypes.c_void_p(scales[1].data_ptr()))
            self.lt.set("MatmulDesc", self.desc, B_SCALE, ctypes.c_void_p(scales[0].data_ptr()))
            self.lt.set("MatmulDesc", self.desc, FAST_ACCUM, ctypes.c_int8(fast))
        self.layouts = [self.lt.layout(b.dtype, *((k, n) if along_k else (n, k))), self.lt.layout(a.dtype, k, m), *(self.lt.layout(c.dtype, n, m) for _ in range(2))]
        self.workspace = torch.empty(WORKSPACE_BYTES, dtype=torch.uint8, device=a.device)

    def heuristics(self):
        preference = self.lt.make("MatmulPreferenceCreate")
        self.lt.set("MatmulPreference", preference, MOST_WORKSPACE, ctypes.c_uint64(WORKSPACE_BYTES))
        found, count = (Heuristic * HEURISTICS)(), ctypes.c_int()
        self.lt.call("MatmulAlgoGetHeuristic", self.lt.handle, self.desc, *self.layouts, preference, HEURISTICS, found, ctypes.byref(count))
        return list(found[: count.value])

    def caller(self, heuristic):
        a, b, c, _ = self.tensors
        at = [ctypes.c_void_p(t.data_ptr()) for t in (b, a, c, c)]
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        matrices = [x for pair in zip(at, self.layouts) for x in pair]
        args = [self.lt.handle, self.desc, ctypes.byref(self.one), *matrices[:4], ctypes.byref(self.zero), *matrices[4:]]
        args += [ctypes.byref(heuristic.algo), ctypes.c_void_p(self.workspace.data_ptr()), ctypes.c_size_t(WORKSPACE_BYTES), stream]
        return lambda: self.lt.call("Matmul", *args)


def median_ms(run, rounds=7):
    def once():
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        run()
        end.record()
        end.synchronize()
        return start.elapsed_time(end)

    return statistics.median(once() for _ in range(rounds))


def best_of_cublaslt(a, b, c, **options):
    """Returns the fastest of the first heuristics. `scales` of A and B (one f32 element each) and `fast` accumulation are for 8-bit floats."""
    product = LtProduct(a, b, c, **options)
    runs = []
    for heuristic in product.heuristics():
        run = product.caller(heuristic)
        try:
            run()
            runs.append(run)
        except RuntimeError:  # not supported for this shape and layout
            continue
    if not runs:
        raise RuntimeError("cuBLASLt has no algorithm")
    return min(runs, key=median_ms)


def configurations():
    for bm, bn, warps, stages in ((128, 256, 8, 3), (128, 256, 8, 4), (128, 128, 8, 4), (128, 128, 4, 4), (128, 64, 4, 5), (64, 128, 4, 5), (64, 64, 4, 6)):
        yield triton.Config({"BM": bm, "BN": bn, "BK": 64}, num_warps=warps, num_stages=stages)


@triton.jit
def product(A, B, C, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr):
    a = tl.make_tensor_descriptor(A, shape=[m, k], strides=[k, 1], block_shape=[BM, BK])
    b = tl.make_tensor_descriptor(B, shape=[k, n], strides=[n, 1], block_shape=[BK, BN])
    c = tl.make_tensor_descriptor(C, shape=[m, n], strides=[n, 1], block_shape=[BM, BN])
    # Horizontally adjacent tiles share columns of B in L2.
    rows, columns = tl.cdiv(m, BM), tl.cdiv(n, BN)
    group = tl.program_id(0) // (GROUP * columns)
    high = min(rows - group * GROUP, GROUP)
    place = tl.program_id(0) % (GROUP * columns)
    row, column = (group * GROUP + place % high) * BM, (place // high) * BN
    sums = tl.zeros((BM, BN), dtype=tl.float32)
    for step in range(tl.cdiv(k, BK)):
        sums = tl.dot(a.load([row, step * BK]), b.load([step * BK, column]), sums)
    c.store([row, column], sums.to(C.dtype.element_ty))


def triton_product(a, b, c):
    """Multiplies operands loaded by TMA, with the fastest of seven configurations; A, B and C are row-major with rows of multiples of 16 bytes."""
    (m, k), n = a.shape, b.shape[1]
    if not (a.is_contiguous() and b.is_contiguous() and c.is_contiguous()) or any(x * a.element_size() % 16 for x in (n, k)):
        raise NotImplementedError("TMA does not support these rows")
    triton.set_allocator(lambda size, alignment, stream: torch.empty(size, device=a.device, dtype=torch.int8))
    tuned = TUNED.setdefault(a.dtype, triton.autotune(list(configurations()), key=["m", "n", "k"])(product))
    return lambda: tuned[lambda at: (triton.cdiv(m, at["BM"]) * triton.cdiv(n, at["BN"]),)](a, b, c, m, n, k, GROUP=8)


TUNED = {}
