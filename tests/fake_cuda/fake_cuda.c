/* A libcuda.so.1 whose every function succeeds and does nothing: for what only a loaded driver shows. */
#include <stdint.h>
#include <string.h>

static int succeed(void) { return 0; }
static int one_device(int* count) {
  *count = 1;
  return 0;
}
static int version(int* out) {
  *out = 13000;
  return 0;
}

/* cuGetProcAddress_v2 */
int cuGetProcAddress_v2(const char* symbol, void** address, int since, uint64_t flags, int* status) {
  (void)since;
  (void)flags;
  *address = (void*)succeed;
  if (strcmp(symbol, "cuDeviceGetCount") == 0) *address = (void*)one_device;
  if (strcmp(symbol, "cuDriverGetVersion") == 0) *address = (void*)version;
  *status = 0;
  return 0;
}
