/* A C program that uses exported callables: values, signatures, and every class of error as a code.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tegula.h>

_Static_assert(sizeof(TegulaArg) == 16, "TegulaArg");
_Static_assert(sizeof(TegulaParam) == 24, "TegulaParam");
_Static_assert(sizeof(TegulaError) == 32, "TegulaError");
_Static_assert(sizeof(TegulaSignature) == 48, "TegulaSignature");
_Static_assert(sizeof(DLTensor) == 48, "DLTensor");
_Static_assert(offsetof(TegulaArg, value) == 8 && offsetof(TegulaParam, dtype) == 12, "offsets");

static int failures = 0;

static void check(int holds, const char* what, int line) {
  if (!holds) {
    const TegulaError* e = tegula_last_error();
    printf("FAILED line %d: %s (last error %d: %s)\n", line, what, e->code, e->text);
    ++failures;
  }
}
#define CHECK(holds) check((holds), #holds, __LINE__)

/* The last call failed with this code; its text begins with `text`. */
static void check_error(TegulaCode code, TegulaCode wanted, const char* text, int line) {
  const TegulaError* e = tegula_last_error();
  const int holds =
      code == wanted && e->code == (int32_t)wanted && strncmp(e->text, text, strlen(text)) == 0;
  if (!holds) {
    printf("FAILED line %d: code %d, %d wanted: %s | %s | %s\n", line, (int)code, (int)wanted,
           e->text, e->hint, e->where);
    ++failures;
  }
}
#define CHECK_ERROR(code, wanted, text) check_error((code), (wanted), (text), __LINE__)

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

static TegulaArg of_tensor(const DLTensor* t) {
  TegulaArg a = {TEGULA_TENSOR, 0, {0}};
  a.value.tensor = t;
  return a;
}
static TegulaArg of_int(int64_t i) {
  TegulaArg a = {TEGULA_INT, 0, {0}};
  a.value.i = i;
  return a;
}
static TegulaArg of_float(double f) {
  TegulaArg a = {TEGULA_FLOAT, 0, {0}};
  a.value.f = f;
  return a;
}
static TegulaArg of_pointer(const void* p) {
  TegulaArg a = {TEGULA_POINTER, 0, {0}};
  a.value.pointer = p;
  return a;
}
static TegulaArg none(void) {
  TegulaArg a = {TEGULA_NONE, 0, {0}};
  return a;
}

enum { N = 100 };
static float x[N], y[N], z[N];
static int64_t shape[1] = {N};

static void test_list_and_signature(void) {
  const char* names[64];
  const int32_t count = tegula_list(names, 64);
  int has_add = 0;
  for (int32_t i = 0; i < count && i < 64; ++i) has_add += strcmp(names[i], "add") == 0;
  CHECK(count >= 12 && has_add == 1);
  CHECK(tegula_list(NULL, 0) == count);
  CHECK(tegula_abi() == TEGULA_ABI);

  const TegulaSignature* s = tegula_signature(tegula_find("affine"));
  CHECK(s && s->abi == TEGULA_ABI && strcmp(s->name, "affine") == 0 && s->count == 8);
  if (!s) return;
  CHECK(strcmp(s->params[0].name, "x") == 0 && strcmp(s->params[0].dims, "M N") == 0);
  CHECK(s->params[0].kind == TEGULA_TENSOR && s->params[0].rank == 2 &&
        s->params[0].access == TEGULA_IN);
  CHECK(s->params[1].kind == TEGULA_FLOAT && s->params[1].dtype.code == kDLFloat &&
        s->params[1].dtype.bits == 32);
  CHECK(s->params[2].kind == TEGULA_INT && s->params[2].dtype.code == kDLInt &&
        s->params[2].dtype.bits == 32);
  CHECK(s->params[3].kind == TEGULA_INT && s->params[3].dtype.bits == 32);
  CHECK(s->params[4].dtype.code == kDLBool && s->params[5].dtype.code == kDLUInt &&
        s->params[5].dtype.bits == 8);
  CHECK(s->params[6].kind == TEGULA_FLOAT && s->params[7].access == TEGULA_OUT);
  CHECK(s->backward == NULL && s->saved == NULL);

  s = tegula_signature(tegula_find("bias"));
  CHECK(s && s->count == 4 && strcmp(s->params[0].name, "arg0") == 0 && s->params[0].dims[0] == 0);
  CHECK(s && s->params[1].kind == TEGULA_POINTER && s->params[3].optional == 1);
  s = tegula_signature(tegula_find("square"));
  CHECK(s && s->backward && strcmp(s->backward, "square_backward") == 0 &&
        strcmp(s->saved, "x") == 0);
  s = tegula_signature(tegula_find("window_attention"));
  CHECK(s && s->count == 6 && s->params[0].dtype.bits == 0 && s->params[4].dtype.bits == 32 &&
        s->params[4].optional && s->params[5].optional && s->params[5].access == TEGULA_IN);
  s = tegula_signature(tegula_find("append"));
  CHECK(s && s->count == 13 && s->params[2].access == TEGULA_INOUT &&
        s->params[6].kind == TEGULA_INT && s->params[6].dtype.bits == 64 &&
        s->params[8].dtype.bits == 64 && s->params[12].optional &&
        s->params[12].access == TEGULA_INOUT);
  s = tegula_signature(tegula_find("paged_attention"));
  CHECK(s && s->count == 10 && s->params[1].access == TEGULA_IN &&
        s->params[6].access == TEGULA_OUT);
}

static void test_calls(void) {
  for (int i = 0; i < N; ++i) {
    x[i] = (float)i;
    y[i] = (float)(1000 - 2 * i);
    z[i] = -1;
  }
  const DLTensor tx = tensor(x, 1, shape), ty = tensor(y, 1, shape), tz = tensor(z, 1, shape);
  const TegulaArg args[3] = {of_tensor(&tx), of_tensor(&ty), of_tensor(&tz)};
  const TegulaCallable* add = tegula_find("add");
  CHECK(tegula_call(add, args, 3, NULL) == TEGULA_OK);
  CHECK(tegula_last_error()->code == TEGULA_OK && tegula_last_error()->text[0] == 0);
  for (int i = 0; i < N; ++i) CHECK(z[i] == x[i] + y[i]);

  /* Strides and an offset: every second element of x from the second on, backwards into z. */
  int64_t half[1] = {N / 2}, two[1] = {2}, back[1] = {-1};
  DLTensor odd = tensor(x, 1, half), reversed = tensor(z + N / 2 - 1, 1, half);
  odd.strides = two;
  odd.byte_offset = sizeof(float);
  reversed.strides = back;
  const TegulaArg strided[3] = {of_tensor(&odd), of_tensor(&odd), of_tensor(&reversed)};
  CHECK(tegula_call(add, strided, 3, NULL) == TEGULA_OK);
  for (int i = 0; i < N / 2; ++i) CHECK(z[N / 2 - 1 - i] == 2 * x[2 * i + 1]);

  int64_t matrix[2] = {10, 10};
  const DLTensor mx = tensor(x, 2, matrix), mz = tensor(z, 2, matrix);
  const TegulaArg numbers[8] = {of_tensor(&mx), of_float(0.5), of_int(-3), of_int(2),
                                of_int(1),      of_int(1),     of_int(4),  of_tensor(&mz)};
  CHECK(tegula_call(tegula_find("affine"), numbers, 8, NULL) == TEGULA_OK);
  for (int i = 0; i < N; ++i) CHECK(z[i] == -2 * (0.5f * x[i] - 3 + 8));

  float two_and_half = 2.5f;
  int64_t one[1] = {1};
  const DLTensor scale = tensor(&two_and_half, 1, one);
  TegulaArg biased[4] = {of_tensor(&tx), of_tensor(&scale), of_tensor(&tz), of_tensor(&ty)};
  const TegulaCallable* bias = tegula_find("bias");
  CHECK(tegula_call(bias, biased, 4, NULL) == TEGULA_OK);
  for (int i = 0; i < N; ++i) CHECK(z[i] == 2.5f * x[i] + y[i]);
  CHECK(tegula_call(bias, biased, 3, NULL) ==
        TEGULA_OK); /* a trailing optional argument is missing */
  for (int i = 0; i < N; ++i) CHECK(z[i] == 2.5f * x[i]);
  biased[3] = none();
  CHECK(tegula_call(bias, biased, 4, NULL) == TEGULA_OK);
}

/* Window attention of one head against its definition. */
static void test_attention(void) {
  enum { L = 32, D = 16 };
  static uint16_t q[L * D], k[L * D], v[L * D], o[L * D];
  static float lse[L];
  int64_t dims[4] = {1, 1, L, D}, rows[3] = {1, 1, L};
  DLTensor t[5];
  uint16_t* data[4] = {q, k, v, o};
  for (int i = 0; i < L * D; ++i) { /* bf16: the upper half of a float */
    const float values[3] = {(float)(i % 7 - 3), (float)(i % 5 - 2) * 0.25f, (float)(i % 11)};
    for (int j = 0; j < 3; ++j) {
      uint32_t bits;
      memcpy(&bits, &values[j], 4);
      data[j][i] = (uint16_t)(bits >> 16);
    }
  }
  for (int i = 0; i < 4; ++i) {
    t[i] = tensor(NULL, 4, dims);
    t[i].data = data[i];
    t[i].dtype.code = kDLBfloat;
    t[i].dtype.bits = 16;
  }
  t[4] = tensor(lse, 3, rows);
  TegulaArg args[5];
  for (int i = 0; i < 5; ++i) args[i] = of_tensor(&t[i]);
  const TegulaCallable* attention = tegula_find("window_attention");
  CHECK(tegula_call(attention, args, 5, NULL) == TEGULA_OK);
  for (int r = 0; r < L; ++r) {
    double sum = 0;
    for (int c = 0; c <= r; ++c) {
      if (r - c >= 16) continue;
      double s = 0;
      for (int d = 0; d < D; ++d) s += ((r * D + d) % 7 - 3) * ((c * D + d) % 5 - 2) * 0.25;
      sum += exp(s / sqrt(D));
    }
    CHECK(fabs(lse[r] - log(sum)) < 1e-3);
  }
  CHECK(tegula_call(attention, args, 4, NULL) == TEGULA_OK);
  t[3].dtype.code = kDLFloat;
  CHECK_ERROR(tegula_call(attention, args, 4, NULL), TEGULA_ARGUMENT, "T1603");
  CHECK(strstr(tegula_last_error()->where, "exports.cpp") != NULL);
}

static void test_errors_of_arguments(void) {
  int64_t matrix[2] = {10, 10}, longer[1] = {N + 1};
  const DLTensor tx = tensor(x, 1, shape), tz = tensor(z, 1, shape);
  const TegulaCallable* add = tegula_find("add");
  TegulaArg args[3] = {of_tensor(&tx), of_tensor(&tx), of_tensor(&tz)};

  DLTensor bad = tensor(x, 1, shape);
  args[1] = of_tensor(&bad);
  bad.dtype.code = kDLInt;
  CHECK_ERROR(tegula_call(add, args, 3, NULL), TEGULA_ARGUMENT, "T0702: argument y of add");
  bad.dtype.lanes = 4;
  CHECK_ERROR(tegula_call(add, args, 3, NULL), TEGULA_ARGUMENT, "T1221");
  bad = tensor(x, 2, matrix);
  CHECK_ERROR(tegula_call(add, args, 3, NULL), TEGULA_ARGUMENT, "T0701: argument y of add");
  bad = tensor(x, 1, longer);
  CHECK_ERROR(tegula_call(add, args, 3, NULL), TEGULA_ARGUMENT, "T0709");
  bad = tensor(NULL, 1, shape);
  CHECK_ERROR(tegula_call(add, args, 3, NULL), TEGULA_ARGUMENT, "T1205");
  bad = tensor(x, 1, shape);
  bad.byte_offset = 2;
  CHECK_ERROR(tegula_call(add, args, 3, NULL), TEGULA_ARGUMENT, "T1206");
  bad = tensor(x, 1, shape);
  bad.device.device_type = (DLDeviceType)7; /* Vulkan */
  CHECK_ERROR(tegula_call(add, args, 3, NULL), TEGULA_ARGUMENT, "T1222");
  bad = tensor(z, 1, shape);
  CHECK_ERROR(tegula_call(add, args, 3, NULL), TEGULA_ARGUMENT, "T0706");
  CHECK(tegula_last_error()->hint[0] != 0 &&
        strstr(tegula_last_error()->where, "exports.cpp:") != NULL);

  args[1] = of_tensor(NULL);
  CHECK_ERROR(tegula_call(add, args, 3, NULL), TEGULA_ARGUMENT, "T1806: argument y of add");
  args[1] = none();
  CHECK_ERROR(tegula_call(add, args, 3, NULL), TEGULA_ARGUMENT,
              "T1804: argument y of add is nothing, not a tensor");
  args[1] = of_int(1);
  CHECK_ERROR(tegula_call(add, args, 3, NULL), TEGULA_ARGUMENT, "T1804");
  args[1].kind = 99;
  CHECK_ERROR(tegula_call(add, args, 3, NULL), TEGULA_ARGUMENT, "T1804");
  CHECK_ERROR(tegula_call(add, args, 2, NULL), TEGULA_ARGUMENT,
              "T1803: add takes 3 arguments, not 2");
  CHECK_ERROR(tegula_call(add, args, 4, NULL), TEGULA_ARGUMENT, "T1803");
  CHECK_ERROR(tegula_call(add, NULL, 3, NULL), TEGULA_ARGUMENT, "T1807");
  CHECK_ERROR(tegula_call(add, args, -1, NULL), TEGULA_ARGUMENT, "T1807");
  CHECK_ERROR(tegula_call(NULL, args, 3, NULL), TEGULA_ARGUMENT, "T1801");

  const DLTensor m = tensor(x, 2, matrix), mz = tensor(z, 2, matrix);
  TegulaArg numbers[8] = {of_tensor(&m), of_int(1), of_int(0), of_int(0),
                          of_int(0),     of_int(0), of_int(0), of_tensor(&mz)};
  const TegulaCallable* affine = tegula_find("affine");
  CHECK(tegula_call(affine, numbers, 8, NULL) == TEGULA_OK);
  CHECK(tegula_last_error()->code == TEGULA_OK); /* the error before is gone */
  numbers[2] = of_int((int64_t)1 << 31);
  CHECK_ERROR(tegula_call(affine, numbers, 8, NULL), TEGULA_ARGUMENT,
              "T1805: argument offset of affine");
  numbers[2] = of_float(1);
  CHECK_ERROR(tegula_call(affine, numbers, 8, NULL), TEGULA_ARGUMENT, "T1804");
  numbers[2] = of_int(0);
  numbers[4] = of_int(2); /* no bool */
  CHECK_ERROR(tegula_call(affine, numbers, 8, NULL), TEGULA_ARGUMENT,
              "T1805: argument twice of affine");

  TegulaArg biased[3] = {of_tensor(&tx), of_pointer(NULL), of_int(0)};
  CHECK_ERROR(tegula_call(tegula_find("bias"), biased, 3, NULL), TEGULA_ARGUMENT,
              "T1804: argument arg2");
}

static void test_errors_of_others(void) {
  const DLTensor tx = tensor(x, 1, shape), tz = tensor(z, 1, shape);
  const TegulaArg args[3] = {of_tensor(&tx), of_tensor(&tx), of_tensor(&tz)};
  CHECK(tegula_find("subtract") == NULL);
  CHECK_ERROR(TEGULA_ARGUMENT, TEGULA_ARGUMENT, "T1802: nothing is exported as \"subtract\"");
  CHECK(strstr(tegula_last_error()->hint, "add, affine") != NULL);
  CHECK(tegula_find(NULL) == NULL);

  const TegulaArg pair[2] = {of_tensor(&tx), of_tensor(&tz)};
  CHECK_ERROR(tegula_call(tegula_find("refused"), pair, 2, NULL), TEGULA_COMPILE, "T02");
  for (int i = 0; i < 2; ++i) { /* what making it threw is kept */
    CHECK(tegula_signature(tegula_find("thrown")) == NULL);
    CHECK_ERROR(tegula_call(tegula_find("thrown"), args, 3, NULL), TEGULA_COMPILE,
                "the callable threw an exception: no configuration file");
  }
  CHECK_ERROR(tegula_call(tegula_find("misnamed"), args, 1, NULL), TEGULA_COMPILE, "T0710");
  CHECK(tegula_signature(tegula_find("wrong_backward")) == NULL);
  CHECK_ERROR(TEGULA_COMPILE, TEGULA_COMPILE, "T1808");

  int64_t thirteen[1] = {13};
  const DLTensor sx = tensor(x, 1, thirteen), sy = tensor(y, 1, thirteen),
                 sz = tensor(z, 1, thirteen);
  const TegulaArg few[3] = {of_tensor(&sx), of_tensor(&sy), of_tensor(&sz)};
  CHECK_ERROR(tegula_call(tegula_find("twice_added"), few, 3, NULL), TEGULA_COMPILE,
              "the callable threw an exception: thirteen");

  DLTensor gpu = tensor(x, 1, shape);
  gpu.device.device_type = kDLCUDA;
  gpu.device.device_id = 99;
  const TegulaArg far[3] = {of_tensor(&gpu), of_tensor(&gpu), of_tensor(&gpu)};
  const TegulaCode code = tegula_call(tegula_find("twice_added"), far, 3, NULL);
  CHECK(code == TEGULA_DEVICE ||
        code == TEGULA_ARGUMENT); /* no such GPU, or an overlap seen before */
}

static void test_infer(void) {
  int64_t q[4] = {2, 8, 5, 64}, k[4] = {2, 4, 7, 64}, v[4] = {2, 4, 7, 32}, o[4], lse[4];
  DLTensor t[3] = {tensor(NULL, 4, q), tensor(NULL, 4, k), tensor(NULL, 4, v)};
  for (int i = 0; i < 3; ++i) {
    t[i].dtype.code = kDLBfloat;
    t[i].dtype.bits = 16;
    t[i].device.device_type = kDLCUDA;
    t[i].device.device_id = 1;
  }
  DLTensor out[2];
  memset(out, 0, sizeof out);
  out[0].shape = o;
  out[1].shape = lse;
  const TegulaArg args[4] = {of_tensor(&t[0]), of_tensor(&t[1]), of_tensor(&t[2]), none()};
  const TegulaCallable* attention = tegula_find("window_attention");
  CHECK(tegula_infer(attention, args, 4, out, 2) == TEGULA_OK);
  CHECK(out[0].ndim == 4 && o[0] == 2 && o[1] == 8 && o[2] == 5 && o[3] == 32);
  CHECK(out[0].dtype.code == kDLBfloat && out[0].dtype.bits == 16 && out[0].device.device_id == 1);
  CHECK(out[1].ndim == 3 && lse[2] == 5 && out[1].dtype.code == kDLFloat &&
        out[1].dtype.bits == 32);
  CHECK_ERROR(tegula_infer(attention, args, 4, out, 1), TEGULA_ARGUMENT, "T1810");
  CHECK_ERROR(tegula_infer(attention, args, 4, out, 3), TEGULA_ARGUMENT, "T1810");
  const TegulaArg unnamed[3] = {of_tensor(&t[0]), of_tensor(&t[0]), none()};
  CHECK_ERROR(tegula_infer(tegula_find("bias"), unnamed, 3, out, 1), TEGULA_ARGUMENT, "T1809");
}

int main(void) {
  test_list_and_signature();
  test_calls();
  test_attention();
  test_errors_of_arguments();
  test_errors_of_others();
  test_infer();
  printf("%s\n", failures ? "FAILED" : "ok");
  return failures ? EXIT_FAILURE : EXIT_SUCCESS;
}
