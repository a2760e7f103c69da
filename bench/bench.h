#pragma once
// The benchmark library: named cases over tensors that the caller owns, behind a C interface so
// that bench/peers.py gives both sides the same tensors and stream through ctypes.
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "tegula/kernels/attention.h"
#include "tegula/stream.h"
#include "tegula/tensor.h"

namespace tegula::bench {

/// Parts of an attention.
struct AttentionSetup {
  AttentionSetup(AttentionSpec s, AttentionSchedule h = {}) : spec(std::move(s)), schedule(h) {}
  Attention made() const { return Attention(spec, schedule); }

  AttentionSpec spec;
  AttentionSchedule schedule;
};

/// One callable case: arguments in the order its comment says, one optional number.
struct Case {
  std::string name;
  std::function<void(const Stream&, std::span<const Tensor>, double)> run;
  /// The attention that a case asks for with such arguments; else empty.
  std::function<AttentionSetup(std::span<const Tensor>, double)> setup = {};
};
using Tensors = std::span<const Tensor>;
/// Bytes as 8-bit floats, which the caller's library has no name for.
inline Tensor as_fp8(const Tensor& bytes) {
  return Tensor::borrow(bytes.data(), bytes.shape(), DType::f8e4m3, bytes.device(),
                        bytes.strides());
}
void add_row_cases(std::vector<Case>& list);
void add_device_cases(std::vector<Case>& list);
void add_triton_cases(std::vector<Case>& list);
void add_matmul_cases(std::vector<Case>& list);
void add_tuned_cases(std::vector<Case>& list);
void add_moe_cases(std::vector<Case>& list);
void add_grouped_cases(std::vector<Case>& list);
const std::vector<Case>& cases();
const Case& find_case(const std::string& name);

/// Medians of trace, passes, emit and assemble of the library's kernels, one JSON line each.
std::vector<std::string> compile_figures(int repeats);
/// Microseconds per launch of our path and of a bare cuLaunchKernelEx with the same function,
/// arguments and attributes, in alternating batches of 256; one JSON line.
std::string launch_figures(int rounds);

}  // namespace tegula::bench

extern "C" {
/// Runs a case on DLPack tensors (borrowed) and a CUstream. 0, or 1 with the text in
/// tegula_bench_error().
int tegula_bench_run(const char* name, void* const* dlpack, int count, void* stream, double number);
const char* tegula_bench_error();
/// Runs a case within tune(): the configurations that its calls of the library decide are measured
/// on these tensors and used from then on. `is_full` is the budget, `any_bits`
/// TuneOptions::may_change_bits. A line of JSON for each decision, valid until the next call on
/// this thread; null with the text in tegula_bench_error().
const char* tegula_bench_tune(const char* name, void* const* dlpack, int count, void* stream,
                              double number, int is_full, int any_bits);

/// Pairs of a query and a key of the first head of a case of attention.
typedef struct {
  int64_t kept, computed, cover;    ///< as in tools/workload/attention_pairs.h
  int64_t tile_queries, tile_keys;  ///< what attention chooses for these tensors
} TegulaBenchPairs;
/// Counts them for the arguments of tegula_bench_run, on host memory too. 0, or 1 with the text in
/// tegula_bench_error().
int tegula_bench_pairs(const char* name, void* const* dlpack, int count, double number,
                       TegulaBenchPairs* pairs);
/// JSON lines of compile_figures and launch_figures, valid until the next call on this thread.
const char* tegula_bench_compile(int repeats);
const char* tegula_bench_launch(int rounds);
/// Report of Kernel::explain() on the kernel compiled last for a case of the library.
const char* tegula_bench_backend();
}
