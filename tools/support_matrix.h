#pragma once
// The language's support matrix: which operations exist on which element types, targets and
// executors, found out by asking: every cell is a kernel that is traced, run on cpu and on sim, and
// emitted for both targets by both back ends.
#include <array>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace tegula::tools {

/// Executors of a kernel, and back ends with the targets, oldest first, that they emit code for.
inline constexpr std::array<std::string_view, 6> kExecutors{
    "cpu", "sim", "LLVM sm_80", "LLVM sm_90a", "NVRTC sm_80", "NVRTC sm_90a"};

/// How a kernel fared.
struct Outcome {
  /// Why an executor refuses, by its position in kExecutors; "" where it does not.
  std::array<std::string, kExecutors.size()> refusals;
  /// cpu and sim computed the same bits.
  bool same_bits = true;
  std::map<std::string, int> ops;                         ///< of the trace: how often each mnemonic
  std::map<std::string, std::set<std::string>> simt_ops;  ///< mnemonics, by target
  bool compares_and_swaps = false;  ///< where the hardware has no such atomic operation

  /// No executor refuses.
  bool everywhere() const;
  /// All executors refuse for the same reason.
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

/// An op or property without an element type of its own.
struct FeatureSupport {
  std::string text;
  Outcome outcome;
};

/// Chooses the kernels whose emitted text ptxas and NVRTC must take, too: each `every`-th, none for
/// 0.
class AssembledShare {
 public:
  explicit AssembledShare(int every) : every_(every) {}
  bool takes_next() { return every_ > 0 && next_++ % every_ == 0; }

 private:
  int every_, next_ = 0;
};

std::vector<OperationSupport> operation_support(AssembledShare& assembled);
/// Rows are types from, columns types to.
std::vector<OperationSupport> cast_support(AssembledShare& assembled);
std::vector<ProductSupport> product_support(AssembledShare& assembled);
std::vector<FeatureSupport> feature_support(AssembledShare& assembled);

}  // namespace tegula::tools
