// Combines attention to several sets of keys by their log-sum-exps.
#include "tegula/kernels/attention_state.h"

#include <array>
#include <limits>

#include "kernels/argument_error.h"
#include "kernels/float_types.h"
#include "tegula/attention_tiles.h"
#include "tegula/tegula.h"

namespace tegula::kernels {
namespace {

constexpr std::size_t kMaxParts = 4;
constexpr int kMergedRows = 8;
constexpr float kNoKeys = -std::numeric_limits<float>::infinity();

template <class T>
struct MergedParts {
  In<T, 3> O0;
  In<f32, 2> lse0;
  std::optional<In<T, 3>> O1, O2, O3;
  std::optional<In<f32, 2>> lse1, lse2, lse3;
};

template <class T>
auto merge_kernel() {
  return kernel("merge_states", [](const MergedParts<T>& parts, Out<T, 3> O,
                                   const std::optional<Out<f32, 2>>& lse) {
    O.do_not_specialize(0);
    if (lse) lse->do_not_specialize(0);
    const Index columns = slice(0, padded_head_dim(O.static_dim(2)));
    for (auto [r, h] : grid({O.dim(0), O.dim(1)}, kMergedRows, 1)) {
      std::vector<Tile> logs, values;
      const auto add = [&, r = r, h = h](const In<T, 3>& part, const In<f32, 2>& log) {
        part.do_not_specialize(0), log.do_not_specialize(0);
        logs.push_back(fill_absent(log(r, h), kNoKeys));
        values.push_back(cast<f32>(part(r, h, columns)));
      };
      add(parts.O0, parts.lse0);
      if (parts.O1) add(*parts.O1, *parts.lse1);
      if (parts.O2) add(*parts.O2, *parts.lse2);
      if (parts.O3) add(*parts.O3, *parts.lse3);
      Tile top = logs[0];
      for (const Tile& log : logs) top = max(top, log);
      top = where(top == kNoKeys, 0.0f, top);
      Tile total = zeros<f32>(kMergedRows),
           acc = zeros<f32>(kMergedRows, static_cast<int>(columns.block()));
      for (std::size_t i = 0; i < logs.size(); ++i) {
        const Tile weight = exp(logs[i] - top), each = expand(weight, 1);
        total = total + weight;
        acc = acc + where(each > 0.0f, each * fill_absent(values[i], 0), 0.0f);
      }
      const Tile is_empty = total == 0.0f;
      O(r, h, columns) = acc / expand(where(is_empty, 1.0f, total), 1);
      if (lse) (*lse)(r, h) = where(is_empty, kNoKeys, top + log(total));
    }
  });
}

}  // namespace

void merge_states(const Stream& stream, std::span<const AttentionState> parts, const Tensor& O,
                  const Tensor& lse, Loc at) {
  const detail::CallPlace here(at);
  constexpr const char* kName = "merge_states";
  if (parts.empty() || parts.size() > kMaxParts)
    throw_argument_error(ErrorId::kernel_argument, kName, "the number of parts", parts.size(),
                         "1 to 4 of them, and merge the results of more");
  require_rank(kName, "O", O, 3);
  const Dims rows{O.size(0), O.size(1)};
  std::array<AttentionState, kMaxParts> all;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    require_tensor(kName, "O of a part", parts[i].O, O.dtype(), O.shape());
    require_tensor(kName, "lse of a part", parts[i].lse, DType::f32, rows);
    all[i] = parts[i];
  }
  require_optional(kName, "lse", lse, DType::f32, rows);
  for_float(kName, O.dtype(), [&]<class T>(T) {
    static const auto* const kernel = new auto(merge_kernel<T>());  // never destroyed
    (*kernel)(stream, all[0].O, all[0].lse, all[1].O, all[2].O, all[3].O, all[1].lse, all[2].lse,
              all[3].lse, O, lse);
  });
}

}  // namespace tegula::kernels
