/* Plays the part of TVM-FFI's run time: calls exported callables by its convention, hands out a
 * stream and takes errors. The types are its own of apache/tvm-ffi's c_api.h, written out again. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tegula.h>

typedef struct {
  int32_t type_index;
  uint32_t zero_padding;
  union {
    int64_t v_int64;
    double v_float64;
    void* v_ptr;
  } value;
} Any;
typedef struct {
  uint64_t combined_ref_count;
  int32_t type_index;
  uint32_t padding;
  void (*deleter)(void*, int);
  DLTensor tensor;
} TensorObject;
_Static_assert(sizeof(Any) == 16 && offsetof(TensorObject, tensor) == 24, "TVM-FFI's layout");

enum {
  kNone = 0,
  kInt = 1,
  kBool = 2,
  kFloat = 3,
  kOpaquePtr = 4,
  kDLTensorPtr = 7,
  kRawStr = 8,
  kTensor = 70
};

/* What a library asks of the run time, by name. */
static int streams_asked = 0;
static char raised_kind[64], raised_message[1024];
void* TVMFFIEnvGetStream(int32_t device_type, int32_t device_id);
void* TVMFFIEnvGetStream(int32_t device_type, int32_t device_id) {
  streams_asked += device_type == kDLCUDA && device_id == 99;
  return (void*)0x5000;
}
void TVMFFIErrorSetRaisedFromCStr(const char* kind, const char* message);
void TVMFFIErrorSetRaisedFromCStr(const char* kind, const char* message) {
  snprintf(raised_kind, sizeof raised_kind, "%s", kind);
  snprintf(raised_message, sizeof raised_message, "%s", message);
}

int __tvm_ffi_add(void* handle, const Any* args, int32_t count, Any* result);
int __tvm_ffi_affine(void* handle, const Any* args, int32_t count, Any* result);
int __tvm_ffi_bias(void* handle, const Any* args, int32_t count, Any* result);
int __tvm_ffi_thrown(void* handle, const Any* args, int32_t count, Any* result);

static int failures = 0;
static void check(int holds, const char* what, int line) {
  if (holds) return;
  printf("FAILED line %d: %s (raised %s: %s)\n", line, what, raised_kind, raised_message);
  ++failures;
}
#define CHECK(holds) check((holds), #holds, __LINE__)

enum { N = 100 };
static float x[N], y[N], z[N];

static DLTensor tensor(float* data, int rank, int64_t* shape) {
  DLTensor t;
  memset(&t, 0, sizeof t);
  t.data = data;
  t.device.device_type = kDLCPU;
  t.ndim = rank;
  t.dtype.code = kDLFloat;
  t.dtype.bits = 32;
  t.dtype.lanes = 1;
  t.shape = shape;
  return t;
}
static Any of_pointer(int32_t type, void* p) {
  Any a = {0, 0, {0}};
  a.type_index = type;
  a.value.v_ptr = p;
  return a;
}
static Any of_int(int32_t type, int64_t i) {
  Any a = {0, 0, {0}};
  a.type_index = type;
  a.value.v_int64 = i;
  return a;
}
static Any of_float(double f) {
  Any a = {kFloat, 0, {0}};
  a.value.v_float64 = f;
  return a;
}

int main(void) {
  int64_t line[1] = {N}, matrix[2] = {10, 10};
  for (int i = 0; i < N; ++i) {
    x[i] = (float)i;
    y[i] = (float)(3 * i);
  }
  DLTensor tx = tensor(x, 1, line), tz = tensor(z, 1, line);
  TensorObject object = {1, kTensor, 0, NULL, tensor(y, 1, line)};
  Any result = {kNone, 0, {0}};
  Any args[3] = {of_pointer(kDLTensorPtr, &tx), of_pointer(kTensor, &object),
                 of_pointer(kDLTensorPtr, &tz)};
  CHECK(__tvm_ffi_add(NULL, args, 3, &result) == 0 && result.type_index == kNone);
  for (int i = 0; i < N; ++i) CHECK(z[i] == 4 * x[i]);
  CHECK(streams_asked == 0); /* host memory has no stream */

  DLTensor mx = tensor(x, 2, matrix), mz = tensor(z, 2, matrix);
  const Any numbers[8] = {of_pointer(kDLTensorPtr, &mx),
                          of_float(0.5),
                          of_int(kInt, -3),
                          of_int(kInt, 2),
                          of_int(kBool, 1),
                          of_int(kInt, 1),
                          of_int(kInt, 4),
                          of_pointer(kDLTensorPtr, &mz)};
  CHECK(__tvm_ffi_affine(NULL, numbers, 8, &result) == 0);
  for (int i = 0; i < N; ++i) CHECK(z[i] == -2 * (0.5f * x[i] - 3 + 8));

  float two = 2;
  int64_t one[1] = {1};
  DLTensor scale = tensor(&two, 1, one);
  Any biased[4] = {args[0], of_pointer(kDLTensorPtr, &scale), args[2], of_int(kNone, 0)};
  CHECK(__tvm_ffi_bias(NULL, biased, 4, &result) == 0);
  for (int i = 0; i < N; ++i) CHECK(z[i] == 2 * x[i]);

  /* Errors are raised with Python's kinds. */
  CHECK(__tvm_ffi_add(NULL, args, 2, &result) == -1);
  CHECK(strcmp(raised_kind, "ValueError") == 0 &&
        strncmp(raised_message, "T1803: add takes 3", 18) == 0);
  CHECK(strstr(raised_message, "may be omitted") != NULL &&
        strstr(raised_message, "exports.cpp:") != NULL);
  CHECK(__tvm_ffi_thrown(NULL, args, 3, &result) == -1);
  CHECK(strcmp(raised_kind, "RuntimeError") == 0 &&
        strstr(raised_message, "no configuration file") != NULL);
  args[1] = of_pointer(kRawStr, "text");
  CHECK(__tvm_ffi_add(NULL, args, 3, &result) == -1);
  CHECK(strcmp(raised_kind, "TypeError") == 0 &&
        strncmp(raised_message, "T1811: argument y of add", 24) == 0);
  CHECK(tegula_last_error()->code == TEGULA_ARGUMENT);

  /* The stream is asked for, of the GPU of the first tensor; there is no such GPU. */
  tx.device.device_type = kDLCUDA;
  tx.device.device_id = 99;
  args[1] = args[0];
  CHECK(__tvm_ffi_add(NULL, args, 3, &result) == -1 && streams_asked == 1);

  printf("%s\n", failures ? "FAILED" : "ok");
  return failures ? EXIT_FAILURE : EXIT_SUCCESS;
}
