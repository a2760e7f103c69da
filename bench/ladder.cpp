#include "bench/ladder.h"

#include <cstddef>
#include <map>

#include "tegula/tegula.h"

namespace tegula::bench {
namespace {

constexpr Rung kRungs[] = {
#define LADDER_RUNG(name, rows, columns, group, fields) {name, rows, columns, group, fields},
#include "bench/ladder.def"
#undef LADDER_RUNG
};

auto ladder_product() {
  return kernel("ladder", [](In<bf16, 2> A, In<bf16, 2> B, Out<bf16, 2> C) {
    const int bm = tune("BM", {64, 128}, 128), bn = tune("BN", {128, 256}, 256),
              group = tune("GROUP", {0, 8}, 0);
    for (auto [m, n] : grid(C, bm, bn, group_m(group))) {
      auto acc = zeros<f32>(bm, bn);
      for (auto k : steps(A.cols(), 64)) acc = dot(A(m, k), B(k, n), acc);
      C(m, n) = acc;
    }
  });
}

const auto& kernel_of(const Rung& rung) {
  static const auto base = ladder_product();
  static std::map<const Rung*, decltype(ladder_product())> made;
  return made
      .try_emplace(&rung,
                   base.with({{"BM", rung.rows}, {"BN", rung.columns}, {"GROUP", rung.group}})
                       .with_plan(rung.fields))
      .first->second;
}

}  // namespace

std::span<const Rung> rungs() { return kRungs; }

void climb(const Rung& rung, const Stream& stream, Tensors operands) {
  kernel_of(rung)(stream, operands[0], operands[1], operands[2]);
}

std::string explain(const Rung& rung) { return kernel_of(rung).explain(); }

void add_ladder(std::vector<Case>& list) {
  list.push_back({"ladder", [](const Stream& s, Tensors t, double number) {
                    climb(kRungs[static_cast<std::size_t>(number)], s, t);
                  }});
}

}  // namespace tegula::bench
