#!/usr/bin/env python3
"""Measures the cost of instructions that overlap wgmma: one warpgroup issues MMAs, another only one kind of instruction. Prints one JSON line per kind.

    python3 bench/contention.py --out FILE.jsonl

cycles_alone: 512 such instructions of one scheduler; cycles_beside: the same while MMAs run; product_cycles: eight
m64n128k16 (512 cycles at the tensor cores' rate) without and with them. Needs PyTorch with NVRTC (torch.cuda._compile_kernel).
"""
import argparse
import json

import torch

KINDS = {
    "fma.f32": "x[i] = fmaf(x[i], scale, shift);",
    "add.f32": "x[i] = x[i] + shift;",
    "mul.f32": "x[i] = x[i] * scale;",
    "max.f32": "x[i] = fmaxf(x[i], x[(i + 1) % 64]);",
    "ex2.f32": 'asm volatile("ex2.approx.ftz.f32 %0, %0;" : "+f"(x[i]));',
    "mad.s32": "n[i] = n[i] * n[(i + 1) % 64] + odd;",
    "lop3.b32": "n[i] = (n[i] ^ n[(i + 1) % 64]) & odd;",
    "max.s32": "n[i] = max(n[i], n[(i + 1) % 64]);",
    "max3.s32": "n[i] = __vimax3_s32(n[i], n[(i + 1) % 64], n[(i + 7) % 64]);",
    "max.bf16x2": 'asm volatile("max.bf16x2 %0, %0, %1;" : "+r"(n[i]) : "r"(n[(i + 1) % 64]));',
    "fma.bf16x2": 'asm volatile("fma.rn.bf16x2 %0, %0, %1, %2;" : "+r"(n[i]) : "r"(odd), "r"(count));',
}
CTAS, THREADS, SHARED, ITERATIONS = 132, 256, 65536, 300
PRODUCTS, INSTRUCTIONS = 1, 2  # bits of `mode`

SOURCE = r"""
extern "C" __global__ void __launch_bounds__(256, 1)
contention(float* out, unsigned* cycles, int count, int mode, float scale, float shift, int odd) {
  extern __shared__ __align__(1024) unsigned char shared[];
  for (int i = threadIdx.x; i < 65536 / 4; i += blockDim.x) ((unsigned*)shared)[i] = 0;
  asm volatile("fence.proxy.async;");
  __syncthreads();
  const int group = threadIdx.x / 128;
  unsigned begin, end;
  float sum = 0;
  asm volatile("mov.u32 %0, %%clock;" : "=r"(begin) :: "memory");
  if (group == 0 && (mode & 1)) {
    float d[64];
    for (int i = 0; i < 64; ++i) d[i] = 0;
    const unsigned at = (unsigned)__cvta_generic_to_shared(shared);
    // K-major operands under a swizzle of 128 bytes (PTX ISA, "Matrix Descriptor Format").
    const unsigned long long a = (at & 0x3ffff) >> 4 | 1ull << 16 | 64ull << 32 | 1ull << 62, b = a + 1024;
#pragma unroll 1
    for (int round = 0; round < count; ++round) {
      asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
      PRODUCT PRODUCT PRODUCT PRODUCT PRODUCT PRODUCT PRODUCT PRODUCT
      asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
      asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    }
    for (int i = 0; i < 64; ++i) sum += d[i];
  }
  if (group == 1 && (mode & 2)) {
    float x[64];
    int n[64];
#pragma unroll
    for (int i = 0; i < 64; ++i) x[i] = out[i * 7 + threadIdx.x], n[i] = __float_as_int(x[i]);
#pragma unroll 1
    for (int round = 0; round < 2 * count; ++round) {
#pragma unroll
      for (int part = 0; part < 4; ++part) {
#pragma unroll
        for (int i = 0; i < 64; ++i) { KIND }
      }
    }
#pragma unroll
    for (int i = 0; i < 64; ++i) sum += x[i] + n[i];
  }
  asm volatile("mov.u32 %0, %%clock;" : "=r"(end) :: "memory");
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
  if (threadIdx.x % 128 == 0) cycles[blockIdx.x * 2 + group] = (end - begin) / count;
}
"""


def product():
    sums = ", ".join(f'"+f"(d[{i}])' for i in range(64))
    registers = ", ".join(f"%{i}" for i in range(64))
    text = f"wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {{{registers}}}, %64, %65, p, 1, 1, 0, 0;"
    return f'asm volatile("{{.reg .pred p; setp.ne.b32 p, 1, 0; {text}}}" : {sums} : "l"(a), "l"(b));'


def measure(kind):
    source = SOURCE.replace("PRODUCT", product()).replace("KIND", KINDS[kind])
    kernel = torch.cuda._compile_kernel(source, "contention", compute_capability="90a")
    kernel.set_shared_memory_config(SHARED)
    out = torch.zeros(CTAS * THREADS, device="cuda")
    cycles = torch.zeros(CTAS, 2, device="cuda", dtype=torch.int32)

    def medians(mode):
        kernel(grid=(CTAS, 1, 1), block=(THREADS, 1, 1), args=(out, cycles, ITERATIONS, mode, 0.5, 0.1, 3), shared_mem=SHARED)
        torch.cuda.synchronize()
        return [int(c) for c in cycles.float().median(0).values]

    products, alone, both = medians(PRODUCTS), medians(INSTRUCTIONS), medians(PRODUCTS | INSTRUCTIONS)
    return {"kind": kind, "cycles_alone": alone[1], "cycles_beside": both[1], "product_cycles": [products[0], both[0]]}


def main():
    args = argparse.ArgumentParser(description=__doc__)
    args.add_argument("--out", required=True)
    options = args.parse_args()
    with open(options.out, "w") as out:
        for kind in KINDS:
            row = {**measure(kind), "device": torch.cuda.get_device_name()}
            print(json.dumps(row), file=out, flush=True)


if __name__ == "__main__":
    main()
