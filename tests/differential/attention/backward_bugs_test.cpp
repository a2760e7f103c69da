// Faults that a compiler could make in attention's backward kernel, planted in its code.
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cstdio>
#include <numbers>
#include <utility>

#include "ir/clone_op.h"
#include "kernels/attention/backward_kernel.h"
#include "tegula/kernels/masks.h"
#include "tests/differential/lowering_mistakes.h"
#include "tests/differential/planted_program.h"

namespace tegula::ir::backward_bugs_test {
namespace {

using namespace kernels;
using mistakes::Kind;

constexpr int kQueries = 440, kPadded = 448, kKeys = 256, kDim = 64;
constexpr float kScale = 1 / std::numbers::log2e_v<float>;  // weights are powers of two

/// Tensors with few nonzero elements, so that all sums are exact.
Tensor sparse(int rows, std::uint64_t seed, Device d) {
  const Tensor all = Tensor::integers({rows, kDim}, DType::i32, 0, 24, seed, Device::cpu());
  std::vector<bf16> values;
  for (const double v : all.to_doubles())
    values.emplace_back(v == 0 ? -1.0f : v == 1 ? 1.0f : 0.0f);
  return Tensor::from(values, d).reshape({1, 1, rows, kDim});
}

/// Q, K, V, dO, L, D, dQ, dK, dV.
std::vector<Tensor> tensors_on(Device d) {
  std::vector<float> L(kPadded, 1), D(kPadded, 0);
  for (int i = 0; i < kQueries; ++i)
    L[i] = static_cast<float>(i % 3), D[i] = static_cast<float>(i % 5 - 2);
  for (int i = kQueries; i < kPadded; ++i) L[i] = inf;
  const auto zeros = [&](int rows) { return Tensor::zeros({1, 1, rows, kDim}, DType::bf16, d); };
  return {sparse(kQueries, 1, d),
          sparse(kKeys, 2, d),
          sparse(kKeys, 3, d),
          sparse(kQueries, 4, d),
          Tensor::from(L, d).reshape({1, 1, kPadded}),
          Tensor::from(D, d).reshape({1, 1, kPadded}),
          Tensor::zeros({1, 1, kPadded / 64, 64 * kDim}, DType::f32, d),
          zeros(kKeys),
          zeros(kKeys)};
}

template <std::size_t... I>
void call(const BackwardKernel<bf16>& kernel, const std::vector<Tensor>& t, const Stream& stream,
          std::index_sequence<I...>) {
  const std::array<Tensor, sizeof...(I)> none;  // lists, starts of sequences, captures
  kernel(stream, t[0], t[1], t[2], t[3], t[4], t[5], t[6], t[7], t[8], kScale, false, 0,
         none[I]...);
}
void call(const BackwardKernel<bf16>& kernel, const std::vector<Tensor>& t, const Stream& stream) {
  call(kernel, t, stream, std::make_index_sequence<21>());
}

/// Causal attention of one head; two programs add to each block of dQ.
test::MemoryProgram backward_of_a_head(Device device) {
  static const auto facts =
      std::make_shared<const AttentionHeuristics>(AttentionSpec{.mask = masks::causal()});
  const Mask of_keys = [](const Tile&, const Tile&, const Tile& key, const Tile& query) {
    return query >= key;
  };
  static const BackwardKernel<bf16> kernel =
      backward_kernel<bf16>({facts,
                             std::make_shared<const BlockMask>(of_keys),
                             {},
                             std::make_shared<const ScoreCaptures>(facts),
                             {}});
  static const std::vector<Tensor> want = [] {
    std::vector<Tensor> t = tensors_on(Device::cpu());
    call(kernel, t, Stream(Device::cpu()));
    return t;
  }();
  test::MemoryProgram p{.name = "backward",
                        .args = tensors_on(device),
                        .is_pointer = std::vector<bool>(9),
                        .result = 6,
                        .want = want[6].to_doubles(),
                        .call = {},
                        .programs = 2,
                        .scalars = {std::bit_cast<std::uint32_t>(kScale), 0},
                        .more_results = {{7, want[7].to_doubles()}, {8, want[8].to_doubles()}}};
  p.call = [args = p.args](const Stream& stream) {
    call(kernel, args, stream);
    return kernel.instance().launcher.latest();
  };
  return p;
}

// ---- faults of this kernel; lowering_mistakes.h has those of every loop
/// Two products of the loop read each other's descriptor.
bool operands_exchanged(Kernel& k, std::size_t n) {
  constexpr std::array<std::pair<std::size_t, std::size_t>, 3> kPairs{{{0, 1}, {2, 4}, {1, 4}}};
  if (n >= kPairs.size()) return false;
  const auto mma = mistakes::all(k, true, Opcode::Wgmma);
  std::swap(k[mma[kPairs[n].first]].operands[2], k[mma[kPairs[n].second]].operands[2]);
  return true;
}
/// Weights of masked pairs are not set to 0.
bool mask_is_lost(Kernel& k, std::size_t n) {
  const auto is_weights = [&](OpId op) {
    const OpId weights = k[k[op].operands[1]].def;
    return weights && k[weights].opcode == Opcode::Exp2;
  };
  const OpId select = mistakes::nth(mistakes::all(k, true, Opcode::Select, is_weights), n);
  if (select) k.replace_all_uses(k[select].results[0], k[select].operands[1]);
  return bool(select);
}
/// Additions to dQ are lost, or change other elements.
bool additions_are_wrong(Kernel& k, std::size_t n) {
  const OpId add = mistakes::nth(mistakes::all(k, true, Opcode::AtomGlobal), 0);
  if (n == 0) k[add].attrs.set(AttrName::kind, "max");
  if (n == 1) {
    Builder b(k);
    b.before(add);
    const Value next = b.op(Opcode::AddPtr, {k[add].operands[0], b.i32(4)});
    k[add].operands[0] = next;
  }
  return n < 2;
}

constexpr Kind kOwnKinds[] = {
    {"operands of two products are exchanged", operands_exchanged},
    {"the mask is lost", mask_is_lost},
    {"additions to dQ are wrong", additions_are_wrong},
};

// ---- similar changes that are correct
bool twice(Kernel& k, OpId op) {
  if (!op) return false;
  Builder b(k);
  b.before(op);
  ValueMap same;
  for (Value v : k[op].operands) same[v] = v;
  clone_op(b, op, same);
  return true;
}
bool fenced_twice(Kernel& k, std::size_t n) {
  return twice(k, mistakes::nth(mistakes::all(k, true, Opcode::FenceProxyAsync), n));
}
bool synchronised_twice(Kernel& k, std::size_t n) {
  return twice(k, mistakes::nth(mistakes::all(k, true, Opcode::BarSync), n));
}
bool waited_twice(Kernel& k, std::size_t n) {
  return twice(k, mistakes::nth(mistakes::all(k, true, Opcode::MbarWait), n));
}
bool producer_waits_twice(Kernel& k, std::size_t n) {
  return twice(k, mistakes::nth(mistakes::all(k, false, Opcode::MbarWait), n));
}
bool waits_for_all(Kernel& k, std::size_t n) {
  const OpId wait = mistakes::nth(mistakes::all(k, true, Opcode::WgmmaWait), n);
  return mistakes::add_to_count(k, wait, wait ? -k[wait].attrs.i(AttrName::count) : 0);
}
bool released_later(Kernel& k, std::size_t n) {
  const OpId release = mistakes::nth(mistakes::all(k, true, Opcode::MbarArrive), n);
  if (!release || !mistakes::loop_around(k, release)) return false;
  const OpId end = k[k[release].parent].last;
  k.unlink(release);
  k.insert_before(end, release);
  return true;
}

constexpr Kind kRightKinds[] = {
    {"two fences", fenced_twice},          {"two barriers", synchronised_twice},
    {"two waits", waited_twice},           {"the producer waits twice", producer_waits_twice},
    {"waits for all MMAs", waits_for_all}, {"a slot is released later", released_later},
};

constexpr std::size_t kMinFaults = 40, kMaxMissed = 2;

class BackwardBugs : public testing::Test {
 protected:
  /// Plants a kind in the first `places`, and calls `judge` with what the simulator reports.
  template <class Judge>
  void plant(const Kind& kind, std::size_t places, const Judge& judge) const {
    for (std::size_t n = 0; n < places; ++n) {
      Kernel k = clone(sound_);
      if (!kind.plant(k, n)) return;
      const std::string how = program_.how_caught(k);
      std::printf("%-50s %zu %s\n", kind.name, n, how.c_str());
      judge(how);
    }
  }

  const test::PlantedProgram program_{backward_of_a_head};
  const Kernel sound_ = program_.compile([](std::string_view, Kernel&, bool) {});
};

/// Two changes have no effect: the release after the loop is early, when nothing fills the slot
/// again; and all accesses to dS use the other one of its two slots.
TEST_F(BackwardBugs, AreFound) {
  ASSERT_EQ(program_.how_caught(sound_), "");
  std::size_t planted = 0, missed = 0;
  const auto count = [&](const std::string& how) { ++planted, missed += how.empty(); };
  for (const Kind& kind : mistakes::kKinds) plant(kind, 4, count);
  for (const Kind& kind : kOwnKinds) plant(kind, 4, count);
  EXPECT_GE(planted, kMinFaults);
  EXPECT_LE(missed, kMaxMissed);
}

TEST_F(BackwardBugs, ChangesThatAreRightAreNotReported) {
  for (const Kind& kind : kRightKinds)
    plant(kind, 1, [](const std::string& how) { EXPECT_EQ(how, ""); });
}

}  // namespace
}  // namespace tegula::ir::backward_bugs_test
