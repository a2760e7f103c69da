// vector_add: CUDA C++ for NVRTC, written by Tegula. Compile with -arch=sm_90a -fmad=false; it includes nothing.
// 256 threads per CTA.

typedef unsigned int u32;

__device__ __forceinline__ void ld_global_f32x4(float* x, const float* p) {
  u32 w[4];
  asm volatile("ld.global.v4.b32 {%0, %1, %2, %3}, [%4];" : "=r"(w[0]), "=r"(w[1]), "=r"(w[2]),
    "=r"(w[3]) : "l"(p) : "memory");
  x[0] = __uint_as_float(w[0]);
  x[1] = __uint_as_float(w[1]);
  x[2] = __uint_as_float(w[2]);
  x[3] = __uint_as_float(w[3]);
}

__device__ __forceinline__ void st_global_f32x4(float* p, const float* x) {
  u32 w[4];
  w[0] = __float_as_uint(x[0]);
  w[1] = __float_as_uint(x[1]);
  w[2] = __float_as_uint(x[2]);
  w[3] = __float_as_uint(x[3]);
  asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" : : "l"(p), "r"(w[0]), "r"(w[1]), "r"(w[2]),
    "r"(w[3]) : "memory");
}

__device__ __forceinline__ float ld_global_f32_if(const float* p, bool is_active, float x) {
  u32 w[1];
  w[0] = __float_as_uint(x);
  asm volatile("{\n\t"
    ".reg .pred q2;\n\t"
    "setp.ne.b32 q2, %2, 0;\n\t"
    "@q2 ld.global.b32 %0, [%1];\n\t"
    "}" : "+r"(w[0]) : "l"(p), "r"(int(is_active)) : "memory");
  return __uint_as_float(w[0]);
}

__device__ __forceinline__ void st_global_f32_if(float* p, float x, bool is_active) {
  u32 w[1];
  w[0] = __float_as_uint(x);
  asm volatile("{\n\t"
    ".reg .pred q2;\n\t"
    "setp.ne.b32 q2, %2, 0;\n\t"
    "@q2 st.global.b32 [%0], %1;\n\t"
    "}" : : "l"(p), "r"(w[0]), "r"(int(is_active)) : "memory");
}

extern "C" __global__ void __launch_bounds__(256, 1)
vector_add_kernel(float* x, float* y, float* z, int n) {
  const int cta_x = blockIdx.x;
  const int tid = threadIdx.x;
  // 01_add.cpp:6
  const int offset = (cta_x * 256u + tid) * 4u;
  // 01_add.cpp:7
  float* const address = x + offset;
  float* const address2 = y + offset;
  float* const address3 = z + offset;
  if (int(offset + 4u) <= n) {
    float loaded[4];
    ld_global_f32x4(loaded, address);
    float loaded2[4];
    ld_global_f32x4(loaded2, address2);
    #pragma unroll
    for (int r = 0; r < 4; r++) loaded[r] = loaded[r] + loaded2[r];
    st_global_f32x4(address3, loaded);
  } else {
    int offset2[4] = {0, 1, 2, 3};
    bool cond[4];
    #pragma unroll
    for (int r = 0; r < 4; r++) cond[r] = int(u32(offset2[r]) + offset) < n;
    float* address4[4];
    #pragma unroll
    for (int r = 0; r < 4; r++) address4[r] = address + offset2[r];
    float* address5[4];
    #pragma unroll
    for (int r = 0; r < 4; r++) address5[r] = address2 + offset2[r];
    float* address6[4];
    #pragma unroll
    for (int r = 0; r < 4; r++) address6[r] = address3 + offset2[r];
    float loaded3[4];
    #pragma unroll
    for (int r = 0; r < 4; r++) loaded3[r] = ld_global_f32_if(address4[r], cond[r], 0.0f);
    float loaded4[4];
    #pragma unroll
    for (int r = 0; r < 4; r++) loaded4[r] = ld_global_f32_if(address5[r], cond[r], 0.0f);
    #pragma unroll
    for (int r = 0; r < 4; r++) loaded3[r] = loaded3[r] + loaded4[r];
    #pragma unroll
    for (int r = 0; r < 4; r++) st_global_f32_if(address6[r], loaded3[r], cond[r]);
  }
}
