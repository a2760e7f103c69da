/* A C program that calls what exported.cpp exports, with the installed tegula.h alone. */
#include <stdio.h>
#include <string.h>
#include <tegula.h>

const TegulaCallable* tegula_export_doubled(void);

int main(void) {
  float x[10], y[10];
  int64_t shape[1] = {10};
  DLTensor t[2];
  TegulaArg args[2];
  int wrong = 0;
  memset(t, 0, sizeof t);
  for (int i = 0; i < 2; ++i) {
    t[i].data = i ? y : x;
    t[i].device.device_type = kDLCPU;
    t[i].ndim = 1;
    t[i].dtype.code = kDLFloat;
    t[i].dtype.bits = 32;
    t[i].dtype.lanes = 1;
    t[i].shape = shape;
    args[i].kind = TEGULA_TENSOR;
    args[i].reserved = 0;
    args[i].value.tensor = &t[i];
  }
  for (int i = 0; i < 10; ++i) x[i] = (float)i;
  if (tegula_call(tegula_export_doubled(), args, 2, NULL) != TEGULA_OK) {
    printf("FAILED %s (%s)\n", tegula_last_error()->text, tegula_last_error()->hint);
    return 1;
  }
  for (int i = 0; i < 10; ++i) wrong += y[i] != 2 * x[i];
  wrong += tegula_call(tegula_find("doubled"), args, 1, NULL) != TEGULA_ARGUMENT;
  printf("%s a kernel from C\n", wrong ? "FAILED" : "ok    ");
  return wrong;
}
