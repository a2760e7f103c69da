// softmax: CUDA C++ for NVRTC, written by Tegula. Compile with -arch=sm_90a -fmad=false; it includes nothing.
// 128 threads per CTA.

typedef unsigned int u32;
typedef long long i64;
typedef unsigned short bf16;  // its bits; arithmetic is done in float

__device__ __forceinline__ void ld_global_bf16x8_cs(bf16* x, const bf16* p) {
  u32 w[4];
  asm volatile("ld.global.cs.v4.b32 {%0, %1, %2, %3}, [%4];" : "=r"(w[0]), "=r"(w[1]), "=r"(w[2]),
    "=r"(w[3]) : "l"(p) : "memory");
  x[0] = bf16(w[0]);
  x[1] = bf16(w[0] >> 16);
  x[2] = bf16(w[1]);
  x[3] = bf16(w[1] >> 16);
  x[4] = bf16(w[2]);
  x[5] = bf16(w[2] >> 16);
  x[6] = bf16(w[3]);
  x[7] = bf16(w[3] >> 16);
}

__device__ __forceinline__ float bf16_to_f32(bf16 x) {
  return __uint_as_float(u32(x) << 16);
}

__device__ __forceinline__ float max_f32(float a, float b) {
  float result;
  asm("max.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
}

__device__ __forceinline__ float exp2_approx_f32(float x) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

__device__ __forceinline__ float rcp_approx_f32(float x) {
  float result;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

__device__ __forceinline__ u32 pack_bf16(float high, float low) {
  u32 result;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(result) : "f"(high), "f"(low));
  return result;
}

__device__ __forceinline__ void st_global_bf16x8(bf16* p, const bf16* x) {
  u32 w[4];
  w[0] = x[0] | u32(x[1]) << 16;
  w[1] = x[2] | u32(x[3]) << 16;
  w[2] = x[4] | u32(x[5]) << 16;
  w[3] = x[6] | u32(x[7]) << 16;
  asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" : : "l"(p), "r"(w[0]), "r"(w[1]), "r"(w[2]),
    "r"(w[3]) : "memory");
}

extern "C" __global__ void __launch_bounds__(128, 1)
softmax_kernel(bf16* x, bf16* y, int rows) {
  const int cta_x = blockIdx.x;
  const int warp = __shfl_sync(0xffffffff, threadIdx.x / 32, 0);
  const int lane = threadIdx.x % 32;
  // softmax.cpp:8
  const int sum = cta_x * 4u + warp;
  if (sum < rows) {
    // softmax.cpp:9
    const i64 offset = i64(sum) * 512ull;
    bf16* const address = x + offset;
    // softmax.cpp:13
    bf16* const address2 = y + offset;
    // softmax.cpp:9
    const int prod = lane * 8u;
    int list[2] = {0, 256};
    #pragma unroll
    for (int r = 0; r < 2; r++) list[r] = u32(list[r]) + prod;
    bf16* address3[2];
    #pragma unroll
    for (int r = 0; r < 2; r++) address3[r] = address + list[r];
    bf16 loaded[16];
    #pragma unroll
    for (int r = 0; r < 2; r++) ld_global_bf16x8_cs(loaded + 8 * r, address3[r]);
    float v[16];
    #pragma unroll
    for (int r = 0; r < 16; r++) v[r] = bf16_to_f32(loaded[r]);
    // softmax.cpp:10
    float top[8];
    #pragma unroll
    for (int r = 0; r < 8; r++) top[r] = max_f32(v[r], v[r + 8]);
    float top2[4];
    #pragma unroll
    for (int r = 0; r < 4; r++) top2[r] = max_f32(top[r], top[r + 4]);
    float top3[2];
    #pragma unroll
    for (int r = 0; r < 2; r++) top3[r] = max_f32(top2[r], top2[r + 2]);
    const float top4 = max_f32(top3[0], top3[1]);
    float top5 = top4;
    int t = 16;
    #pragma unroll 1
    while (t > 0) {
      const float other = __shfl_xor_sync(0xffffffff, top5, t);
      top5 = max_f32(top5, other);
      t = t >> 1;
    }
    // softmax.cpp:11
    float power[16];
    #pragma unroll
    for (int r = 0; r < 16; r++) power[r] = exp2_approx_f32((v[r] - top5) * 1.442695f);
    // softmax.cpp:12
    float sum2[8];
    #pragma unroll
    for (int r = 0; r < 8; r++) sum2[r] = power[r] + power[r + 8];
    float sum3[4];
    #pragma unroll
    for (int r = 0; r < 4; r++) sum3[r] = sum2[r] + sum2[r + 4];
    float sum4[2];
    #pragma unroll
    for (int r = 0; r < 2; r++) sum4[r] = sum3[r] + sum3[r + 2];
    const float sum5 = sum4[0] + sum4[1];
    float total = sum5;
    int t2 = 16;
    #pragma unroll 1
    while (t2 > 0) {
      const float other2 = __shfl_xor_sync(0xffffffff, total, t2);
      total = total + other2;
      t2 = t2 >> 1;
    }
    const float inverse = rcp_approx_f32(total);
    // softmax.cpp:13
    bf16 v2[16];
    #pragma unroll
    for (int r = 0; r < 16; r += 2) {
      const u32 pair = pack_bf16(power[r + 1] * inverse, power[r] * inverse);
      v2[r] = bf16(pair);
      v2[r + 1] = bf16(pair >> 16);
    }
    bf16* address4[2];
    #pragma unroll
    for (int r = 0; r < 2; r++) address4[r] = address2 + list[r];
    #pragma unroll
    for (int r = 0; r < 2; r++) st_global_bf16x8(address4[r], v2 + 8 * r);
  }
}
