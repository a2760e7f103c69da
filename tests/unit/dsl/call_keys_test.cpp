// Equal quick keys imply equal full keys, over random tensors: those of kernels, of plans of calls
// and of tune() winners.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <map>
#include <random>

#include "dsl/ahead/table.h"
#include "dsl/call_key.h"
#include "dsl/instance.h"
#include "dsl/plan_key.h"
#include "tegula/tegula.h"

namespace tegula::dsl::call_keys_test {
namespace {

constexpr int kDraws = 6000;

/// Random tensors whose classes often coincide. Their memory is never accessed.
class Tensors {
 public:
  template <std::size_t N>
  std::int64_t pick(const std::int64_t (&from)[N]) {
    return from[random_() % N];
  }
  Tensor draw(DType dtype, int rank) {
    static constexpr std::int64_t kExtents[]{0, 1, 1, 2, 3, 4, 5, 8, 12, 16, 17, 24, 32, 48};
    static constexpr std::int64_t kStrides[]{0,  1,  1,  -1, 2,   3,   4,   5,         6,
                                             8,  12, 16, 17, 32,  48,  128, 384,       1 << 20,
                                             -2, -3, -4, -8, -16, -32, -48, -(1 << 20)};
    static constexpr std::int64_t kOffsets[]{0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 24, 32, 64, 128};
    Dims shape, strides;
    for (int i = 0; i < rank; ++i) {
      shape.push_back(pick(kExtents));
      strides.push_back(pick(kStrides));
    }
    if (rank > 0 && random_() % 8 == 0) shape[0] = std::int64_t{1} << pick({20, 31});
    const std::uintptr_t first =
        (std::uintptr_t{1} << 44) + static_cast<std::uintptr_t>(pick(kOffsets) * size_bytes(dtype));
    return Tensor::borrow(reinterpret_cast<void*>(first), shape, dtype, Device::cpu(),
                          random_() % 4 == 0 ? Dims() : strides);
  }
  bool flip_coin() { return random_() % 2 == 0; }
  int number() { return static_cast<int>(random_() % 3); }

 private:
  std::mt19937 random_{7};
};

/// Notes pairs of keys. The first key must determine the second one.
class Pairs {
 public:
  void note(const std::string& quick, const std::string& full, const std::string& of) {
    const auto [at, is_new] = full_of_.try_emplace(quick, full, of);
    repeated_ += !is_new;
    EXPECT_EQ(at->second.first, full) << of << "\nhas the quick key of\n" << at->second.second;
  }
  /// Fails if the draws are too different to test anything.
  void expect_many_repeated() const { EXPECT_GT(repeated_, kDraws / 40); }

 private:
  std::map<std::string, std::pair<std::string, std::string>> full_of_;
  int repeated_ = 0;
};

std::string text_of(const CallKey& k) { return std::to_string(k.a) + " " + std::to_string(k.b); }
std::string text_of(const PlanKey& k) {
  std::string text;
  for (const std::uint64_t w : k.words()) text += std::to_string(w) + " ";
  return text;
}
std::string text_of(std::span<const HostArg> args) {
  std::string text;
  for (const HostArg& a : args)
    text += a.tensor ? fmt::format("{} at {}\n", a.tensor->str(), a.tensor->data())
                     : fmt::format("{:#x}\n", a.bits);
  return text;
}
std::string types_of(const Signature& s) {
  std::string text;
  for (const ArgClass& a : s.args) text += type_of(a).str() + "\n";
  return text;
}

/// Compares all keys of a kernel's calls. `draw(tensors)` calls `check` with the packed arguments.
template <class K, class Draw>
void compare_keys(const K& k, const Draw& draw) {
  Pairs call, signature, types, winner;
  Tensors tensors;
  KernelInstance& instance = k.instance();
  for (int i = 0; i < kDraws && !testing::Test::HasFailure(); ++i)
    draw(tensors, [&](std::span<const HostArg> args) {
      CallArgs run_time;
      const std::string key = text_of(make_call_key(instance, args, Device::cpu(), run_time));
      const Signature full = instance.signature(args);
      const std::string of = text_of(args);
      call.note(key, full.text(), of);
      signature.note(full.text(), key, of);  // a distinction of the key alone compiles twice
      types.note(full.text(), types_of(full), of);
      winner.note(text_of(shapes_key(instance, args, Device::cpu())), full.text(), of);
    });
  call.expect_many_repeated();
}

TEST(CallKeys, ImplySignatures) {
  const auto two = kernel("two", [](In<f32, 2>, Out<bf16, 1>) {});
  compare_keys(two, [&](Tensors& t, const auto& check) {
    const Tensor x = t.draw(DType::f32, 2), y = t.draw(DType::bf16, 1);
    check(two.pack(x, y));
  });
  const auto bytes = kernel("bytes", [](InOut<u8, 3>) {});
  compare_keys(bytes, [&](Tensors& t, const auto& check) {
    const Tensor x = t.draw(DType::u8, 3);
    check(bytes.pack(x));
  });
  const auto wide = kernel("wide", [](In<f64, 1>, In<f16, 0>) {});
  compare_keys(wide, [&](Tensors& t, const auto& check) {
    const Tensor x = t.draw(DType::f64, 1), y = t.draw(DType::f16, 0);
    check(wide.pack(x, y));
  });
}

TEST(CallKeys, ImplySignaturesOfAllKindsOfArguments) {
  const auto k = kernel("kinds", [](std::optional<In<f32, 1>>, Ptr<i16>, Scalar<f32>, int,
                                    std::optional<Out<f32, 1>>) {});
  compare_keys(k, [&](Tensors& t, const auto& check) {
    const Tensor x = t.flip_coin() ? t.draw(DType::f32, 1) : Tensor(),
                 y = t.flip_coin() ? t.draw(DType::f32, 1) : Tensor();
    const std::int64_t address = t.pick({0x1000, 0x1002, 0x1004, 0x1006, 0x1008});
    check(k.pack(x, reinterpret_cast<const i16*>(address), static_cast<float>(t.number()),
                 t.number(), y));
  });
}

TEST(CallKeys, ImplySignaturesOfTensorsByAddress) {
  const auto k = kernel("by_address", [](Ptr<i8>) {});
  compare_keys(k, [&](Tensors& t, const auto& check) {
    static constexpr std::int64_t kExtents[]{1, 7, 16, std::int64_t{1} << 31,
                                             (std::int64_t{1} << 31) - (1 << 20)};
    const std::uintptr_t at = (std::uintptr_t{1} << 44) + static_cast<unsigned>(t.number());
    const Tensor x =
        Tensor::borrow(reinterpret_cast<void*>(at), {t.pick(kExtents)}, DType::i8, Device::cpu());
    check(k.pack(x));
  });
}

TEST(CallKeys, ImplySignaturesThatTracesExtend) {
  const auto whole = kernel("whole", [](InOut<f32, 2> x) {
    x.do_not_specialize(0);
    for (auto i : grid(x.rows(), 1)) x(i, all) += 1;
  });
  const auto fixed = kernel("fixed", [](InOut<f32, 2> x) {
    x.do_not_specialize_stride(1);
    const int n = x.static_dim(1);
    for (auto [i, j] : grid(x, 1, 16)) x(i, j) += static_cast<float>(n);
  });
  const Tensor x = Tensor::zeros({3, 5}, DType::f32, Device::cpu());
  for (const auto& k : {whole, fixed}) {
    (void)k.trace(x);
    ASSERT_GE(k.instance().known().requests.size(), 2u);
    compare_keys(k, [&k](Tensors& t, const auto& check) {
      const Tensor a = t.draw(DType::f32, 2);
      check(k.pack(a));
    });
  }
}

TEST(CallKeys, ImplySignaturesOfCapturedTensors) {
  Tensor captured = Tensor::zeros({4, 8}, DType::f32, Device::cpu());
  Scalar<i32> n = 3;
  const auto k = kernel("captures", [&captured, n](Out<f32, 1> y) {
    for (auto i : grid(y, 16)) y(i) = view<f32, 2>(captured)(0, i) + cast<f32>(n);
  });
  (void)k.trace(Tensor::zeros({8}, DType::f32, Device::cpu()));
  compare_keys(k, [&](Tensors& t, const auto& check) {
    captured = t.draw(DType::f32, 2);
    n = t.number();
    const Tensor y = t.draw(DType::f32, 1);
    check(k.pack(y));
  });
}

/// Returns the facts about a tensor that kernels of a plan may depend on.
std::string facts_of(const Tensor& t) {
  const HostArg a{ParamKind::View, t.dtype(), &t, 0};
  const ArgClass c = classify(a, {ParamKind::View, t.dtype(), t.rank(), detail::ViewAccess::In});
  return fmt::format("{} {} {}\n", type_of(c).str(), c.empty, needs_wide_index(t));
}

/// The tensor and the views of it that callables of the library make.
std::string facts_of_views(const Tensor& t, StrideKey strides) {
  std::string facts = facts_of(t) + t.shape().str() + facts_of(t.with_rank(4));
  if (t.rank() == 2) facts += facts_of(t.transpose(0, 1));
  if (strides == StrideKey::classes) return facts;
  if (t.is_contiguous()) facts += facts_of(t.reshape({t.numel()}));
  for (int d = 0; d < t.rank(); ++d) {
    if (t.size(d) < 2) continue;
    facts += facts_of(t.flip(d)) + facts_of(t.slice(d, 1, t.size(d), 2)) + facts_of(t.select(d, 1));
  }
  return facts;
}

TEST(PlanKeys, ImplyTheFactsOfAllTensorsOfAPlan) {
  for (const StrideKey strides : {StrideKey::classes, StrideKey::exact})
    for (const DType dtype : {DType::bf16, DType::f32}) {
      Pairs pairs;
      Tensors tensors;
      for (int i = 0; i < 4 * kDraws && !HasFailure(); ++i) {
        const Tensor t = i % 50 == 0 ? Tensor() : tensors.draw(dtype, i % 3);
        const HostArg arg{ParamKind::View, dtype, &t, 0};
        PlanKey key(strides);
        key.add(arg);
        pairs.note(text_of(key), t.defined() ? facts_of_views(t, strides) : "absent",
                   text_of(std::span(&arg, 1)));
      }
      pairs.expect_many_repeated();
    }
}

TEST(PlanKeys, ImplyTheClassOfAddresses) {
  Pairs pairs;
  for (std::uint64_t address = 1 << 20; address < (1 << 20) + 300; ++address) {
    const HostArg arg{ParamKind::Pointer, DType::i8, nullptr, address};
    PlanKey key(StrideKey::exact);
    key.add(arg);
    std::string aligns;
    for (const std::uint64_t offset : {0, 1, 2, 4, 8})
      aligns += std::to_string(divisor_class(static_cast<std::int64_t>(address + offset))) + " ";
    pairs.note(text_of(key), aligns, std::to_string(address));
  }
}

TEST(AheadClasses, ServeCallsThatHaveTheirFacts) {
  const AheadCallable callable{"k", {{{ParamKind::View, DType::f32, 2}, false, "x"}}, true, {}};
  Tensors tensors;
  int served = 0;
  for (int i = 0; i < 10 * kDraws; ++i) {
    const Tensor a = tensors.draw(DType::f32, 2), b = tensors.draw(DType::f32, 2);
    const HostArg of_a{ParamKind::View, DType::f32, &a}, of_b{ParamKind::View, DType::f32, &b};
    AheadClass made = class_of(std::span(&of_a, 1), callable);
    made.strides.clear();  // as for kernels
    if (!serves(made, class_of(std::span(&of_b, 1), callable))) continue;
    ++served;
    const ArgClass& facts = made.args[0];
    bool holds = reinterpret_cast<std::uintptr_t>(b.data()) % facts.align == 0 &&
                 (b.numel() == 0) == facts.empty && (made.is_wide || !needs_wide_index(b));
    for (std::size_t d = 0; d < 2; ++d) {
      const DimClass& c = facts.dims[d];
      const std::int64_t stride = b.strides()[d];
      holds &= b.shape()[d] % c.div == 0 && stride % c.stride_div == 0 &&
               (stride == 1 || !c.unit_stride) && (stride >= 0 || c.stride_div == 1);
    }
    ASSERT_TRUE(holds) << b.str() << " is served by the kernel of " << a.str();
  }
  EXPECT_GT(served, kDraws / 20);
}

}  // namespace
}  // namespace tegula::dsl::call_keys_test
