/* Calls a kernel and a product of the library that `tegula aot` compiled: found without a GPU, launched where there is one. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "mine.h"

static TegulaArg of(const DLTensor* t) {
  TegulaArg a = {TEGULA_TENSOR, 0, {0}};
  a.value.tensor = t;
  return a;
}

static DLTensor vector(void* data, int64_t* n) {
  DLTensor t;
  memset(&t, 0, sizeof t);
  t.data = data;
  t.device.device_type = kDLCUDA;
  t.ndim = 1;
  t.dtype.code = kDLFloat;
  t.dtype.bits = 32;
  t.dtype.lanes = 1;
  t.shape = n;
  return t;
}

/* The number of the kernel that adds vectors of n floats at `data`. */
static int32_t found(void* data, int64_t n) {
  DLTensor x = vector(data, &n);
  TegulaArg args[3];
  args[0] = args[1] = args[2] = of(&x);
  return mine_add_supported(args, 3);
}

/* The same where y is shorter than x and z: a kernel that relies on one N serves none such. */
static int32_t found_unequal(void* data, int64_t n, int64_t fewer) {
  DLTensor x = vector(data, &n), y = vector(data, &fewer);
  TegulaArg args[3];
  args[0] = args[2] = of(&x);
  args[1] = of(&y);
  return mine_add_supported(args, 3);
}

/* Arguments of a row-major product of bf16, A [m, k], B [k, n], C [m, n], at `data`; C's rows are `pitch` apart. */
typedef struct {
  int64_t shape[3][2], strides[3][2];
  DLTensor tensors[3];
  TegulaArg args[3];
} Product;

static void product(Product* p, void* data[3], int64_t m, int64_t n, int64_t k, int64_t pitch) {
  const int64_t extents[3][2] = {{m, k}, {k, n}, {m, n}};
  int i;
  memset(p, 0, sizeof *p);
  for (i = 0; i < 3; ++i) {
    DLTensor* t = &p->tensors[i];
    p->shape[i][0] = extents[i][0];
    p->shape[i][1] = extents[i][1];
    p->strides[i][0] = i == 2 ? pitch : extents[i][1];
    p->strides[i][1] = 1;
    t->data = data[i];
    t->device.device_type = kDLCUDA;
    t->ndim = 2;
    t->dtype.code = kDLBfloat;
    t->dtype.bits = 16;
    t->dtype.lanes = 1;
    t->shape = p->shape[i];
    t->strides = p->strides[i];
    p->args[i] = of(t);
  }
}

static int32_t found_product(int64_t m, int64_t n, int64_t k, int64_t pitch) {
  void* nowhere[3] = {(void*)4096, (void*)8192, (void*)12288};
  Product p;
  product(&p, nowhere, m, n, k, pitch);
  return mine_product_supported(p.args, 3);
}

typedef int (*Init)(unsigned);
typedef int (*Get)(void**, int);
typedef int (*Set)(void*);
typedef int (*Alloc)(unsigned long long*, size_t);
typedef int (*ToDevice)(unsigned long long, const void*, size_t);
typedef int (*ToHost)(void*, unsigned long long, size_t);

/* The code of a product that is launched nowhere. */
static int refused_product(TegulaCode wanted, int64_t k) {
  void* nowhere[3] = {(void*)4096, (void*)(1 << 20), (void*)(2 << 20)};
  Product p;
  TegulaCode code;
  product(&p, nowhere, 64, 96, k, 96);
  code = mine_product(p.args, 3, NULL);
  printf("product of depth %d: code %d, %s\n", (int)k, (int)code, tegula_last_error()->text);
  return code == wanted ? 0 : 6;
}

/* C = A B of ones, in `memory` of so many bytes each. */
static int launch_product(unsigned long long* memory, size_t bytes, uint16_t* host, ToDevice to_device, ToHost to_host) {
  enum { M = 64, N = 96, K = 128 };
  void* data[3] = {(void*)memory[0], (void*)memory[1], (void*)memory[2]};
  Product p;
  int i;
  for (i = 0; i < K * N; ++i) host[i] = 0x3f80; /* 1 */
  if (bytes < sizeof(uint16_t) * K * N) return 7;
  to_device(memory[0], host, sizeof(uint16_t) * M * K);
  to_device(memory[1], host, sizeof(uint16_t) * K * N);
  product(&p, data, M, N, K, N);
  if (mine_product(p.args, 3, NULL) != TEGULA_OK) {
    printf("failed: %s\n", tegula_last_error()->text);
    return 8;
  }
  to_host(host, memory[2], sizeof(uint16_t) * M * N);
  for (i = 0; i < M * N; ++i)
    if (host[i] != 0x4300) { /* 128 */
      printf("element %d of the product is %x\n", i, host[i]);
      return 9;
    }
  return refused_product(TEGULA_ARGUMENT, 256);
}

static int launch(void) {
  enum { N = 8192 };
  static float host[N];
  void* cuda = dlopen("libcuda.so.1", RTLD_NOW);
  int64_t n = N;
  unsigned long long memory[3] = {0, 0, 0};
  void* context = NULL;
  int i;
  if (cuda == NULL || ((Init)dlsym(cuda, "cuInit"))(0) != 0 ||
      ((Get)dlsym(cuda, "cuDevicePrimaryCtxRetain"))(&context, 0) != 0) {
    DLTensor x = vector((void*)64, &n), y = vector((void*)(1 << 20), &n), z = vector((void*)(2 << 20), &n);
    TegulaArg args[3] = {of(&x), of(&y), of(&z)};
    TegulaCode code = mine_add(args, 3, NULL);
    printf("no GPU: code %d, %s\n", (int)code, tegula_last_error()->text);
    return code == TEGULA_DEVICE ? refused_product(TEGULA_DEVICE, 128) : 3;
  }
  ((Set)dlsym(cuda, "cuCtxSetCurrent"))(context);
  for (i = 0; i < N; ++i) host[i] = (float)i;
  for (i = 0; i < 3; ++i) {
    ((Alloc)dlsym(cuda, "cuMemAlloc_v2"))(&memory[i], sizeof host);
    ((ToDevice)dlsym(cuda, "cuMemcpyHtoD_v2"))(memory[i], host, sizeof host);
  }
  DLTensor x = vector((void*)memory[0], &n), y = vector((void*)memory[1], &n), z = vector((void*)memory[2], &n);
  TegulaArg args[3] = {of(&x), of(&y), of(&z)};
  if (mine_add(args, 3, NULL) != TEGULA_OK) {
    printf("failed: %s\n", tegula_last_error()->text);
    return 4;
  }
  ((ToHost)dlsym(cuda, "cuMemcpyDtoH_v2"))(host, memory[2], sizeof host);
  for (i = 0; i < N; ++i)
    if (host[i] != 2.0f * (float)i) {
      printf("element %d is %g\n", i, (double)host[i]);
      return 5;
    }
  printf("launched\n");
  return launch_product(memory, sizeof host, (uint16_t*)host, (ToDevice)dlsym(cuda, "cuMemcpyHtoD_v2"), (ToHost)dlsym(cuda, "cuMemcpyDtoH_v2"));
}

/* Libraries of this process that compile. */
static int compilers(void) {
  char line[4096];
  int count = 0;
  FILE* maps = fopen("/proc/self/maps", "r");
  while (maps && fgets(line, sizeof line, maps))
    if (strstr(line, "tegula_llvm") || strstr(line, "libLLVM") || strstr(line, "nvrtc")) ++count;
  if (maps) fclose(maps);
  return count;
}

int main(void) {
  int result;
  printf("found %d %d %d %d %d\n", found((void*)64, 8192), found((void*)64, 37), found((void*)68, 64), mine_add_supported(NULL, 0),
         found_unequal((void*)64, 8192, 16));
  printf("found product %d %d %d\n", found_product(64, 96, 128, 96), found_product(64, 96, 256, 96), found_product(64, 96, 128, 104));
  result = launch();
  printf("maps: %d of LLVM or NVRTC\n", compilers());
  return result;
}
