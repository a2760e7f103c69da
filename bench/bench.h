#pragma once
// The benchmark library: named cases on tensors of the caller. Through its C interface,
// bench/peers.py passes the same tensors and stream to both sides by ctypes.
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tegula/kernels/attention.h"
#include "tegula/stream.h"
#include "tegula/tensor.h"

namespace tegula::bench {

/// Spec and schedule of an attention call.
struct AttentionSetup {
  AttentionSetup(kernels::AttentionSpec s, kernels::AttentionSchedule h = {})
      : spec(std::move(s)), schedule(h) {}
  kernels::Attention made() const { return kernels::Attention(spec, schedule); }

  kernels::AttentionSpec spec;
  kernels::AttentionSchedule schedule;
};

/// A callable case: arguments in the order of its comment, and one optional number.
struct Case {
  std::string name;
  std::function<void(const Stream&, std::span<const Tensor>, double)> run;
  /// Returns the attention that the case uses for such arguments; may be empty.
  std::function<AttentionSetup(std::span<const Tensor>, double)> setup = {};
};
using Tensors = std::span<const Tensor>;
/// Returns bytes as 8-bit floats, a type that the caller's library cannot name.
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
void add_serving_cases(std::vector<Case>& list);
const std::vector<Case>& cases();
const Case& find_case(std::string_view name);

/// Returns median times of trace, passes, emit and assemble of the library's kernels, as JSON
/// lines.
std::vector<std::string> compile_figures(int repeats);
/// Returns the microseconds per launch of the runtime and of a bare cuLaunchKernelEx with the same
/// function, arguments and attributes, in alternating batches of 256, as a JSON line.
std::string launch_figures(int rounds);

}  // namespace tegula::bench

extern "C" {
/// Runs a case on borrowed DLPack tensors and a CUstream. Returns 0, or 1 with the text in
/// tegula_bench_error().
int tegula_bench_run(const char* name, void* const* dlpack, int count, void* stream, double number);
const char* tegula_bench_error();
/// Returns the elements of a work list for a step of that many requests on GPU 0, or -1 with the
/// text in tegula_bench_error().
int64_t tegula_bench_schedule_words(int64_t requests);
/// Runs a case within tune(): the decisions of its library calls are measured on these tensors, and
/// the winners are used from then on. `is_full` selects the budget, `any_bits` is
/// TuneOptions::may_change_bits. Returns a line of JSON per decision, valid until the next call on
/// this thread, or null with the text in tegula_bench_error().
const char* tegula_bench_tune(const char* name, void* const* dlpack, int count, void* stream,
                              double number, int is_full, int any_bits);

/// Pairs of a query and a key, for the first head of an attention case.
typedef struct {
  int64_t kept, computed, cover;    ///< as in tools/workload/attention_pairs.h
  int64_t tile_queries, tile_keys;  ///< chosen by attention for these tensors
} TegulaBenchPairs;
/// Counts the pairs for the arguments of tegula_bench_run, also on host memory. Returns 0, or 1
/// with the text in tegula_bench_error().
int tegula_bench_pairs(const char* name, void* const* dlpack, int count, double number,
                       TegulaBenchPairs* pairs);
/// Return JSON lines of compile_figures and launch_figures, valid until the thread's next call.
const char* tegula_bench_compile(int repeats);
const char* tegula_bench_launch(int rounds);
/// Returns the Kernel::explain() report of the kernel compiled last for a case of the library.
const char* tegula_bench_backend();
}
