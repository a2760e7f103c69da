/* Calls kernels that `tegula aot` compiled: found without a GPU, launched where there is one. */
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

typedef int (*Init)(unsigned);
typedef int (*Get)(void**, int);
typedef int (*Set)(void*);
typedef int (*Alloc)(unsigned long long*, size_t);
typedef int (*ToDevice)(unsigned long long, const void*, size_t);
typedef int (*ToHost)(void*, unsigned long long, size_t);

static int launch(void) {
  enum { N = 4096 };
  static float host[N];
  void* cuda = dlopen("libcuda.so.1", RTLD_NOW);
  int64_t n = N;
  unsigned long long memory[3] = {0, 0, 0};
  void* context = NULL;
  int i;
  if (cuda == NULL || ((Init)dlsym(cuda, "cuInit"))(0) != 0 ||
      ((Get)dlsym(cuda, "cuDevicePrimaryCtxRetain"))(&context, 0) != 0) {
    DLTensor x = vector((void*)64, &n);
    TegulaArg args[3];
    args[0] = args[1] = args[2] = of(&x);
    TegulaCode code = mine_add(args, 3, NULL);
    printf("no GPU: code %d, %s\n", (int)code, tegula_last_error()->text);
    return code == TEGULA_DEVICE ? 0 : 3;
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
  return 0;
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
  printf("found %d %d %d %d\n", found((void*)64, 8192), found((void*)64, 37), found((void*)68, 64), mine_add_supported(NULL, 0));
  result = launch();
  printf("maps: %d of LLVM or NVRTC\n", compilers());
  return result;
}
