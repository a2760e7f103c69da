#pragma once
// The language's support matrix: supported operations by element type, target and executor. Every
// cell is determined by a kernel that is traced, run on cpu and sim, and emitted for both targets
// by both back ends.
#include <array>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace tegula::tools {

/// Executors of a kernel: devices, then back ends with targets, oldest target first.
inline constexpr std::array<std::string_view, 6> kExecutors{
    "cpu", "sim", "LLVM sm_80", "LLVM sm_90a", "NVRTC sm_80", "NVRTC sm_90a"};

/// Result of a kernel on all executors.
struct Outcome {
  /// Reason why an executor rejects the kernel, indexed as kExecutors; "" if it does not.
  std::array<std::string, kExecutors.size()> refusals;
  /// cpu and sim computed the same bits.
  bool same_bits = true;
  std::map<std::string, int> ops;                         ///< count of each mnemonic in the trace
  std::map<std::string, std::set<std::string>> simt_ops;  ///< mnemonics, by target
  bool compares_and_swaps = false;  ///< the hardware lacks such an atomic operation

  /// Returns true if no executor rejects the kernel.
  bool everywhere() const;
  /// Returns true if all executors reject the kernel for the same reason.
  bool nowhere() const;
};

/// One row of support_matrix.def on all element types, in the order of kDTypeInfo.
struct OperationSupport {
  std::string group, text;
  std::vector<Outcome> outcomes;
};

/// dot(A, B) of operands of one type, B as [k, n] and as [n, k].
struct ProductSupport {
  std::string operands;
  std::string accumulator;
  Outcome k_by_n, n_by_k;
};

/// An op or property that does not depend on an element type.
struct FeatureSupport {
  std::string text;
  Outcome outcome;
};

/// Selects the kernels whose emitted text is also assembled by ptxas or compiled by NVRTC: every
/// `every`-th one, none for 0.
class AssembledShare {
 public:
  explicit AssembledShare(int every) : every_(every) {}
  bool takes_next() { return every_ > 0 && next_++ % every_ == 0; }

 private:
  int every_, next_ = 0;
};

std::vector<OperationSupport> operation_support(AssembledShare& assembled);
/// Rows are source types, columns are destination types.
std::vector<OperationSupport> cast_support(AssembledShare& assembled);
std::vector<ProductSupport> product_support(AssembledShare& assembled);
std::vector<FeatureSupport> feature_support(AssembledShare& assembled);

}  // namespace tegula::tools
