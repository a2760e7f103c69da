"""Triton's tutorials, written in Triton, for bench/triton_suites.py; each is compared with the same kernel of
examples/triton.

Functions with a leading underscore are kernels. Each is followed by a function that launches it, with the grid and the
configurations that a user of Triton also writes; docs/triton.md counts the lines of both.
"""
import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice


# 01 vector addition
@triton.jit
def _vector_add(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    tl.store(z_ptr + at, tl.load(x_ptr + at, inside) + tl.load(y_ptr + at, inside), inside)


def vector_add(x, y, z):
    n = z.numel()
    _vector_add[(triton.cdiv(n, 1024),)](x, y, z, n, BLOCK=1024)


# 02 fused softmax
@triton.jit
def _softmax(x_ptr, y_ptr, x_stride, y_stride, rows, columns, BLOCK: tl.constexpr, STAGES: tl.constexpr):
    at = tl.arange(0, BLOCK)
    inside = at < columns
    for row in tl.range(tl.program_id(0), rows, tl.num_programs(0), num_stages=STAGES):
        v = tl.load(x_ptr + row * x_stride + at, inside, -float("inf"))
        e = tl.exp(v - tl.max(v, 0))
        tl.store(y_ptr + row * y_stride + at, e / tl.sum(e, 0), inside)


def softmax(x, y):
    rows, columns = x.shape
    block = triton.next_power_of_2(columns)
    programs = min(rows, 4 * torch.cuda.get_device_properties(x.device).multi_processor_count)
    _softmax[(programs,)](x, y, x.stride(0), y.stride(0), rows, columns, BLOCK=block, STAGES=4, num_warps=8)


# 03 matrix multiplication
@triton.autotune([triton.Config({"BM": bm, "BN": bn, "BK": 64, "GROUP": 8}, num_warps=warps, num_stages=stages)
                  for bm, bn, warps, stages in ((128, 256, 8, 3), (128, 128, 8, 4), (128, 128, 4, 4), (64, 256, 4, 4))],
                 key=["M", "N", "K"])
@triton.jit
def _matmul(a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
            BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr):
    pid, tiles_m, tiles_n = tl.program_id(0), tl.cdiv(M, BM), tl.cdiv(N, BN)
    first = pid // (GROUP * tiles_n) * GROUP
    high = min(tiles_m - first, GROUP)
    pid_m, pid_n = first + pid % (GROUP * tiles_n) % high, pid % (GROUP * tiles_n) // high
    rm, rn, rk = (pid_m * BM + tl.arange(0, BM)) % M, (pid_n * BN + tl.arange(0, BN)) % N, tl.arange(0, BK)
    a = a_ptr + rm[:, None] * stride_am + rk[None, :] * stride_ak
    b = b_ptr + rk[:, None] * stride_bk + rn[None, :] * stride_bn
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(tl.cdiv(K, BK)):
        left = K - k * BK
        acc = tl.dot(tl.load(a, rk[None, :] < left, 0.0), tl.load(b, rk[:, None] < left, 0.0), acc)
        a += BK * stride_ak
        b += BK * stride_bk
    acc = tl.where(acc >= 0, acc, 0.01 * acc)
    cm, cn = pid_m * BM + tl.arange(0, BM), pid_n * BN + tl.arange(0, BN)
    c = c_ptr + cm[:, None] * stride_cm + cn[None, :] * stride_cn
    tl.store(c, acc.to(tl.float16), (cm[:, None] < M) & (cn[None, :] < N))


def matmul(a, b, c):
    (M, K), N = a.shape, b.shape[1]
    grid = lambda at: (triton.cdiv(M, at["BM"]) * triton.cdiv(N, at["BN"]),)
    _matmul[grid](a, b, c, M, N, K, *a.stride(), *b.stride(), *c.stride())


# 04 low-memory dropout
@triton.jit
def _dropout(x_ptr, y_ptr, n, p, seed, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    x = tl.load(x_ptr + at, inside)
    tl.store(y_ptr + at, tl.where(tl.rand(seed, at) > p, x / (1 - p), 0.0), inside)


def dropout(x, y, seed):
    n = x.numel()
    _dropout[(triton.cdiv(n, 1024),)](x, y, n, 0.5, seed, BLOCK=1024)


# 05 layer normalisation
@triton.jit
def _layer_norm(x_ptr, w_ptr, b_ptr, y_ptr, mean_ptr, rstd_ptr, stride, n, eps, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    inside = at < n
    x = tl.load(x_ptr + row * stride + at, inside, 0.0).to(tl.float32)
    mean = tl.sum(x, 0) / n
    d = tl.where(inside, x - mean, 0.0)
    rstd = tl.rsqrt(tl.sum(d * d, 0) / n + eps)
    w, b = tl.load(w_ptr + at, inside).to(tl.float32), tl.load(b_ptr + at, inside).to(tl.float32)
    tl.store(y_ptr + row * stride + at, (d * rstd * w + b).to(tl.float16), inside)
    tl.store(mean_ptr + row, mean)
    tl.store(rstd_ptr + row, rstd)


@triton.jit
def _layer_norm_backward(dy_ptr, x_ptr, w_ptr, mean_ptr, rstd_ptr, dx_ptr, dw_ptr, db_ptr, stride, rows, n,
                         BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    inside = at < n
    w = tl.load(w_ptr + at, inside, 0.0).to(tl.float32)
    dw, db = tl.zeros((BLOCK,), tl.float32), tl.zeros((BLOCK,), tl.float32)
    for row in range(tl.program_id(0), rows, tl.num_programs(0)):
        x = tl.load(x_ptr + row * stride + at, inside, 0.0).to(tl.float32)
        g = tl.load(dy_ptr + row * stride + at, inside, 0.0).to(tl.float32)
        rstd = tl.load(rstd_ptr + row)
        xhat = tl.where(inside, (x - tl.load(mean_ptr + row)) * rstd, 0.0)
        wg = w * g
        dx = (wg - (xhat * tl.sum(xhat * wg, 0) + tl.sum(wg, 0)) / n) * rstd
        tl.store(dx_ptr + row * stride + at, dx.to(tl.float16), inside)
        dw += g * xhat
        db += g
    tl.store(dw_ptr + tl.program_id(0) * n + at, dw, inside)
    tl.store(db_ptr + tl.program_id(0) * n + at, db, inside)


@triton.jit
def _layer_norm_weights(dw_ptr, db_ptr, dweight_ptr, dbias_ptr, programs, n, BM: tl.constexpr, BN: tl.constexpr):
    at = tl.program_id(0) * BN + tl.arange(0, BN)
    dw, db = tl.zeros((BM, BN), tl.float32), tl.zeros((BM, BN), tl.float32)
    for first in range(0, programs, BM):
        p = first + tl.arange(0, BM)
        inside = (p[:, None] < programs) & (at[None, :] < n)
        dw += tl.load(dw_ptr + p[:, None] * n + at[None, :], inside, 0.0)
        db += tl.load(db_ptr + p[:, None] * n + at[None, :], inside, 0.0)
    tl.store(dweight_ptr + at, tl.sum(dw, 0).to(tl.float16), at < n)
    tl.store(dbias_ptr + at, tl.sum(db, 0).to(tl.float16), at < n)


def layer_norm(x, w, b, y, mean, rstd, eps):
    rows, n = x.shape
    _layer_norm[(rows,)](x, w, b, y, mean, rstd, x.stride(0), n, eps, BLOCK=triton.next_power_of_2(n), num_warps=8)


def layer_norm_backward(dy, x, w, mean, rstd, dx, dw, db, dweight, dbias):
    (rows, n), programs = x.shape, dw.shape[0]
    block = triton.next_power_of_2(n)
    _layer_norm_backward[(programs,)](dy, x, w, mean, rstd, dx, dw, db, x.stride(0), rows, n, BLOCK=block, num_warps=8)
    _layer_norm_weights[(triton.cdiv(n, 64),)](dw, db, dweight, dbias, programs, n, BM=64, BN=64)


# 06 fused attention, forward
@triton.autotune([triton.Config({"BM": bm, "BN": bn}, num_warps=warps, num_stages=stages)
                  for bm, bn, warps, stages in ((128, 128, 8, 3), (128, 64, 8, 3), (128, 64, 4, 3), (64, 64, 4, 3))],
                 key=["N", "D", "CAUSAL"])
@triton.jit
def _attention(q_ptr, k_ptr, v_ptr, o_ptr, scale, N, D: tl.constexpr, CAUSAL: tl.constexpr,
               BM: tl.constexpr, BN: tl.constexpr):
    m, d = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, D)
    base = tl.program_id(1).to(tl.int64) * N * D
    q = tl.load(q_ptr + base + m[:, None] * D + d[None, :], m[:, None] < N, 0.0)
    top, total = tl.full((BM,), -float("inf"), tl.float32), tl.zeros((BM,), tl.float32)
    acc = tl.zeros((BM, D), tl.float32)
    end = min(tl.program_id(0) * BM + BM, N) if CAUSAL else N
    for first in range(0, end, BN):
        n = first + tl.arange(0, BN)
        k = tl.load(k_ptr + base + n[None, :] * D + d[:, None], n[None, :] < N, 0.0)
        s = tl.dot(q, k) * (scale * 1.44269504)
        s = tl.where((n[None, :] < N) & ((not CAUSAL) | (m[:, None] >= n[None, :])), s, -float("inf"))
        new = tl.maximum(top, tl.max(s, 1))
        keep, p = tl.exp2(top - new), tl.exp2(s - new[:, None])
        total = total * keep + tl.sum(p, 1)
        v = tl.load(v_ptr + base + n[:, None] * D + d[None, :], n[:, None] < N, 0.0)
        acc = tl.dot(p.to(tl.float16), v, acc * keep[:, None])
        top = new
    tl.store(o_ptr + base + m[:, None] * D + d[None, :], (acc / total[:, None]).to(tl.float16), m[:, None] < N)


def attention(q, k, v, o, is_causal):
    B, N, D = q.shape
    _attention[lambda at: (triton.cdiv(N, at["BM"]), B)](q, k, v, o, D ** -0.5, N, D, is_causal)


# 07 functions of a library
@triton.jit
def _extern_function(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    tl.store(y_ptr + at, libdevice.asin(tl.load(x_ptr + at, inside)), inside)


def extern_function(x, y):
    n = x.numel()
    _extern_function[(triton.cdiv(n, 1024),)](x, y, n, BLOCK=1024)


# 08 grouped GEMM over pointers
@triton.autotune([triton.Config({"BM": bm, "BN": bn, "BK": bk, "PROGRAMS": programs}, num_warps=w, num_stages=stages)
                  for bm, bn, bk, w, stages in ((128, 128, 32, 8, 3), (128, 128, 64, 8, 3), (64, 128, 32, 4, 4))
                  for programs in (132, 264)],
                 key=["group_size"])
@triton.jit
def _grouped_gemm(addresses, shapes, group_size, PROGRAMS: tl.constexpr,
                  BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    tile, first = tl.program_id(0), 0
    for g in range(group_size):
        m, n, k = tl.load(shapes + 3 * g), tl.load(shapes + 3 * g + 1), tl.load(shapes + 3 * g + 2)
        columns = tl.cdiv(n, BN)
        end = first + tl.cdiv(m, BM) * columns
        while (tile >= first) & (tile < end):
            a_ptr = tl.load(addresses + 3 * g).to(tl.pointer_type(tl.float16))
            b_ptr = tl.load(addresses + 3 * g + 1).to(tl.pointer_type(tl.float16))
            c_ptr = tl.load(addresses + 3 * g + 2).to(tl.pointer_type(tl.float16))
            own = tile - first
            rm, rn = own // columns * BM + tl.arange(0, BM), own % columns * BN + tl.arange(0, BN)
            rk = tl.arange(0, BK)
            a, b = a_ptr + rm[:, None] * k + rk[None, :], b_ptr + rk[:, None] * n + rn[None, :]
            acc = tl.zeros((BM, BN), tl.float32)
            for _ in range(0, tl.cdiv(k, BK)):  # as in the tutorial: extents are whole tiles
                tl.multiple_of(a, [16, 16])
                tl.multiple_of(b, [16, 16])
                acc += tl.dot(tl.load(a), tl.load(b))
                a += BK
                b += BK * n
            tl.store(c_ptr + rm[:, None] * n + rn[None, :], acc.to(tl.float16))
            tile += PROGRAMS
        first = end


def grouped_gemm(addresses, shapes):
    _grouped_gemm[lambda at: (at["PROGRAMS"],)](addresses, shapes, shapes.shape[0])


# 09 persistent matrix multiplication
@triton.jit
def _persistent_matmul(a_desc, b_desc, c_desc, M, N, K, PROGRAMS: tl.constexpr,
                       BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr):
    tiles_m, tiles_n = tl.cdiv(M, BM), tl.cdiv(N, BN)
    for tile in tl.range(tl.program_id(0), tiles_m * tiles_n, PROGRAMS, flatten=True):
        first = tile // (GROUP * tiles_n) * GROUP
        high = min(tiles_m - first, GROUP)
        m, n = (first + tile % (GROUP * tiles_n) % high) * BM, tile % (GROUP * tiles_n) // high * BN
        acc = tl.zeros((BM, BN), tl.float32)
        for k in range(0, K, BK):
            acc = tl.dot(a_desc.load([m, k]), b_desc.load([n, k]).T, acc)
        c_desc.store([m, n], acc.to(tl.float16))


def persistent_matmul(a, b, c):
    from triton.tools.tensor_descriptor import TensorDescriptor  # of Triton 3.4 and later

    (M, K), N = a.shape, b.shape[0]
    BM, BN, BK = 128, 256, 64
    programs = torch.cuda.get_device_properties(a.device).multi_processor_count
    of = TensorDescriptor.from_tensor
    _persistent_matmul[(programs,)](of(a, [BM, BK]), of(b, [BN, BK]), of(c, [BM, BN]), M, N, K, programs, BM, BN, BK,
                                    GROUP=8, num_warps=8, num_stages=3)


# 10 block-scaled matrix multiplication
@triton.autotune([triton.Config({"BM": bm, "BN": bn, "GROUP": 8}, num_warps=warps, num_stages=stages)
                  for bm, bn, warps, stages in ((128, 128, 8, 3), (128, 128, 4, 3), (64, 128, 4, 4), (128, 64, 4, 4))],
                 key=["M", "N", "K"])
@triton.jit
def _block_scaled_matmul(a_ptr, as_ptr, b_ptr, bs_ptr, c_ptr, M, N, K,
                         BM: tl.constexpr, BN: tl.constexpr, GROUP: tl.constexpr):
    pid, tiles_m, tiles_n = tl.program_id(0), tl.cdiv(M, BM), tl.cdiv(N, BN)
    first = pid // (GROUP * tiles_n) * GROUP
    high = min(tiles_m - first, GROUP)
    rm = (first + pid % (GROUP * tiles_n) % high) * BM + tl.arange(0, BM)
    rn = pid % (GROUP * tiles_n) // high * BN + tl.arange(0, BN)
    rk = tl.arange(0, 128)
    acc = tl.zeros((BM, BN), tl.float32)
    for part in range(K // 128):
        a = tl.load(a_ptr + rm[:, None] * K + part * 128 + rk[None, :], rm[:, None] < M, 0.0)
        b = tl.load(b_ptr + rn[None, :] * K + part * 128 + rk[:, None], rn[None, :] < N, 0.0)
        sa = tl.load(as_ptr + rm * (K // 128) + part, rm < M, 0.0)
        sb = tl.load(bs_ptr + rn * (K // 128) + part, rn < N, 0.0)
        acc += tl.dot(a, b) * sa[:, None] * sb[None, :]
    tl.store(c_ptr + rm[:, None] * N + rn[None, :], acc.to(tl.float16), (rm[:, None] < M) & (rn[None, :] < N))


def block_scaled_matmul(a, a_scales, b, b_scales, c):
    (M, K), N = a.shape, b.shape[0]
    grid = lambda at: (triton.cdiv(M, at["BM"]) * triton.cdiv(N, at["BN"]),)
    _block_scaled_matmul[grid](a, a_scales, b, b_scales, c, M, N, K)
