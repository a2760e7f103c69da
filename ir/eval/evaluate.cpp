#include "ir/eval/evaluate.h"

#include <algorithm>
#include <vector>

namespace tegula::ir {

bool evaluate_elementwise(const Kernel& k, const OpData& d,
                          std::span<const std::span<const Cell>> operands, std::span<Cell> result) {
  const ElementwiseFn fn = elementwise_fn(d.opcode);
  const std::size_t n = operands.size();
  if (!fn || n == 0 || n > kMaxElementwiseOperands) return false;
  std::array<Elem, kMaxElementwiseOperands> in;
  std::array<const Cell*, kMaxElementwiseOperands> cells{};
  std::array<std::size_t, kMaxElementwiseOperands> strides{};
  for (std::size_t i = 0; i < n; ++i) {
    in[i] = k.type(d.operands[i]).elem();
    cells[i] = operands[i].data();
    strides[i] = operands[i].size() == 1 ? 0 : 1;
  }
  std::vector<std::uint8_t> poison(d.is(Opcode::Div, Opcode::Rem) ? result.size() : 0);
  fn({d.attrs, std::span(in).first(n), k.type(d.results[0]).elem(), std::span(cells).first(n),
      std::span(strides).first(n), result.data(), result.size(),
      poison.empty() ? nullptr : poison.data()});
  return std::ranges::count(poison, 1) == 0;
}

}  // namespace tegula::ir
