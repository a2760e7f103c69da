#ifndef TEGULA_H_
#define TEGULA_H_

/* The C interface: callables that C++ code exports by TEGULA_EXPORT (tegula/export.h), called with
 * DLPack tensors on a stream. C11 and later, and C++. docs/c-interface.md is its page.
 *
 * No function throws. A function that fails returns a code or null, and tegula_last_error() has its
 * texts. Every function may be called from any thread. */

#include <stddef.h>
#include <stdint.h>

/* Tensors are those of dlpack.h. The header is included if it is found; otherwise the required part
 * is defined here. A copy of it under another name must be included before this file. */
#if !defined(DLPACK_DLPACK_H_) && defined(__has_include)
#if __has_include(<dlpack/dlpack.h>)
#include <dlpack/dlpack.h>
#endif
#endif
#ifndef DLPACK_DLPACK_H_
typedef enum { kDLCPU = 1, kDLCUDA = 2, kDLCUDAHost = 3, kDLCUDAManaged = 13 } DLDeviceType;
typedef enum {
  kDLInt = 0,
  kDLUInt = 1,
  kDLFloat = 2,
  kDLBfloat = 4,
  kDLBool = 6,
  kDLFloat8_e4m3fn = 10,
  kDLFloat8_e5m2 = 12
} DLDataTypeCode;
typedef struct {
  DLDeviceType device_type;
  int32_t device_id;
} DLDevice;
typedef struct {
  uint8_t code, bits;
  uint16_t lanes;
} DLDataType;
typedef struct {
  void* data;
  DLDevice device;
  int32_t ndim;
  DLDataType dtype;
  int64_t* shape;
  int64_t* strides; /* in elements; null: row-major */
  uint64_t byte_offset;
} DLTensor;
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Incremented when a structure or the meaning of a function changes, not for new functions. */
#define TEGULA_ABI 1
/* Returns the ABI of the loaded library; equal to TEGULA_ABI if the header matches it. */
int32_t tegula_abi(void);

/* An exported kernel, or another exported callable; it lives as long as the library that exports
 * it stays loaded. */
typedef struct TegulaCallable TegulaCallable;

/* Classifies errors by who must act. 4 and 5 are not used. */
typedef enum {
  TEGULA_OK = 0,
  TEGULA_COMPILE = 1,  /* the author of the kernel */
  TEGULA_DEVICE = 2,   /* the owner of the machine: driver, missing library */
  TEGULA_INTERNAL = 3, /* the authors of Tegula */
  TEGULA_ARGUMENT = 6, /* the caller: invalid arguments */
  TEGULA_MEMORY = 7    /* the caller: host or device memory is used up */
} TegulaCode;

/* No pointer is null; unknown texts are "". */
typedef struct {
  int32_t code;        /* a TegulaCode */
  int32_t driver_code; /* CUresult, or 0 */
  const char* text;    /* begins with a stable code where there is one: "T0702: argument x of .." */
  const char* hint;    /* one way to fix it */
  const char* where;   /* location in the C++ source: "file.cpp:12" */
} TegulaError;

/* Returns the error of this thread's last call of another function of this header; TEGULA_OK if it
 * succeeded. Never null; valid until this thread's next such call. */
const TegulaError* tegula_last_error(void);

typedef enum {
  TEGULA_NONE = 0,    /* an omitted optional argument */
  TEGULA_TENSOR = 1,  /* value.tensor */
  TEGULA_INT = 2,     /* value.i; float parameters accept it too */
  TEGULA_FLOAT = 3,   /* value.f */
  TEGULA_POINTER = 4, /* value.pointer: an address on the device of the call */
  TEGULA_OBJECT = 5   /* value.pointer: a Python tensor, only for tegula_call_objects */
} TegulaKind;

typedef struct {
  uint32_t kind;     /* a TegulaKind */
  uint32_t reserved; /* 0 */
  union {
    const DLTensor* tensor;
    int64_t i;
    double f;
    const void* pointer;
  } value;
} TegulaArg;

typedef enum { TEGULA_IN = 0, TEGULA_OUT = 1, TEGULA_INOUT = 2 } TegulaAccess;

typedef struct {
  const char* name;
  uint8_t access;   /* a TegulaAccess */
  uint8_t kind;     /* a TegulaKind. TEGULA_POINTER also accepts a contiguous tensor */
  uint8_t rank;     /* rank of a tensor, else 0 */
  uint8_t optional; /* 1: may be left out */
  DLDataType dtype; /* type of elements or number; bits 0: any, the same in one call */
  const char* dims; /* names of a tensor's dimensions, "M K": equal names have equal extents; ""
                       where they have none. An output has "8", "M*8" or "M+1", too */
} TegulaParam;

/* A backward, if there is one, takes arguments named as in `saved`, `grad_X` for outputs X, and
 * writes `grad_Y` for inputs Y. */
typedef struct {
  uint32_t abi;
  const char* name;
  int32_t count;
  const TegulaParam* params;
  const char* backward; /* name of the exported backward, or null */
  const char* saved;    /* parameters whose arguments the backward takes, "x y", or null */
} TegulaSignature;

/* Writes up to `room` names of all that is exported, and returns how many there are. */
int32_t tegula_list(const char** names, int32_t room);
/* Returns null if nothing is exported as `name`. If two libraries export one name, the first loaded
 * one is found; the function `tegula_export_NAME` of a library returns that library's. */
const TegulaCallable* tegula_find(const char* name);
/* Returns null if the callable could not be made. */
const TegulaSignature* tegula_signature(const TegulaCallable* callable);

/* Queues a call. The device is that of the first tensor: a GPU, or for tensors in host memory the
 * interpreter (with TEGULA_DEVICE=sim the simulator), which returns when all is done. `stream` is a
 * CUstream of that GPU (null and 1: the legacy stream, 2: the one of this thread), and ignored on
 * the host. Trailing optional arguments may be missing. The first call of a class of arguments
 * compiles. Strides and byte_offset count; the structures may go when the call returns, the memory
 * must stay until the stream has passed. */
TegulaCode tegula_call(const TegulaCallable* callable, const TegulaArg* args, int32_t count,
                       void* stream);
/* Shapes, dtypes and device of the outputs of a call with these arguments, whose outputs are
 * TEGULA_NONE: fills `out`, one for each TEGULA_OUT parameter in order, but for `data`. Each
 * `out[i].shape` points to room for the parameter's rank. Fails where an output's dimension is
 * named by no input that is given. */
TegulaCode tegula_infer(const TegulaCallable* callable, const TegulaArg* args, int32_t count,
                        DLTensor* out, int32_t outs);

/* Compiles what a call with these arguments needs, or finds it compiled, and loads it on the
 * device, without launching anything: make it before a stream is captured. `data` of tensors may be
 * null, which means memory aligned to 16 bytes. */
TegulaCode tegula_prepare(const TegulaCallable* callable, const TegulaArg* args, int32_t count);
/* Chooses the numbers of an exported kernel's tune() by measuring calls with copies of these
 * arguments, and keeps the winner for later calls of such arguments, in other processes too.
 * `budget` is "quick" (about 3 seconds) or "full" (a minute). */
TegulaCode tegula_tune(const TegulaCallable* callable, const TegulaArg* args, int32_t count,
                       const char* budget);
/* Adds a bundle of compiled kernels and winners (`tegula tune -o`, `tegula cache export`) to those
 * that this process searches before it compiles, after those of TEGULA_BUNDLES. */
TegulaCode tegula_bundle_add(const char* path);
/* Writes the text of compile_report(): the kernels that this process compiled or found, where, and
 * the time it took. Writes at most `room` bytes including the final 0; returns the full size. */
size_t tegula_report(char* to, size_t room);

/* Calls compiled ahead of time, as `tegula aot` writes them to an object file, with a header whose
 * functions call these. No compiler is needed, and no library of callables. */
/* Returns the row of the table that a call of `name` runs, from 0, or -1 if none. Needs no GPU. */
int32_t tegula_ahead_find(const void* table, uint64_t bytes, const char* name,
                          const TegulaArg* args, int32_t count);
/* Queues the call on `stream`, a CUstream of the GPU of the first tensor. TEGULA_ARGUMENT (T1662)
 * if no row serves it. */
TegulaCode tegula_ahead_call(const void* table, uint64_t bytes, const char* name,
                             const TegulaArg* args, int32_t count, void* stream);

/* tegula_call whose tensors may be objects of one Python library (PyObject*), and whose stream is
 * its current one. `exchange` is the library's DLPackExchangeAPI of dlpack.h 1.2 and later. The
 * caller holds Python's lock; where a function of the table fails, Python has an exception, too. */
TegulaCode tegula_call_objects(const TegulaCallable* callable, const TegulaArg* args, int32_t count,
                               const void* exchange);

#ifdef __cplusplus
}
#endif

#endif /* TEGULA_H_ */
