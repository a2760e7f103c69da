#pragma once
// The kernels that `choose_matmul` leads to, over a grid of problems: each once, as it is for one
// of the types and extents that have no say in the choice.
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "tegula/kernels/matmul.h"

namespace tegula::test {
using namespace kernels;

/// The properties of a matmul that decide its kernel.
struct ChosenProduct {
  /// Operands that are chosen for alike.
  enum class Class : std::uint8_t { Halves, Bytes, Promoted, Tf32, Fma };
  enum class Variant : std::uint8_t { Plain, Epilogue, Gated, Batched, BatchedEpilogue, SplitK };
  Class type = Class::Halves;
  Variant variant = Variant::Plain;
  bool a_k_major = true, b_k_major = false;
  bool for_sm_80 = false;
  MatmulConfig config;
  friend auto operator<=>(const ChosenProduct&, const ChosenProduct&) = default;

  std::string str() const {
    constexpr const char* kClasses[] = {"halves", "bytes", "fp32_promotion", "tf32", "fma"};
    constexpr const char* kVariants[] = {"",         " epilogue",         " gated",
                                         " batched", " batched epilogue", " split_k"};
    return std::string(kClasses[static_cast<int>(type)]) + kVariants[static_cast<int>(variant)] +
           (a_k_major ? " N" : " T") + (b_k_major ? "T " : "N ") + config.str() +
           (for_sm_80 ? " for sm_80" : "");
  }
};

/// The extents of problems: odd, ragged, of models and huge.
inline constexpr std::int64_t kRows[] = {1,   8,   17,   33,   64,   100, 200,
                                         333, 512, 1024, 2048, 4096, 8192};
inline constexpr std::int64_t kColumns[] = {8,    64,   100,  192,  333,  512,
                                            1024, 2304, 4096, 4097, 8192, 14336};
inline constexpr std::int64_t kDepths[] = {1, 64, 100, 192, 512, 1024, 4096, 16384};

/// Alignment as the library asks of tensors: for 8 bits and tf32, k is contiguous in both, if need
/// be in copies; for 16 bits, rows are 128-byte aligned or not in all four ways.
class ChosenProducts {
 public:
  static std::vector<ChosenProduct> all() {
    ChosenProducts found;
    for (const std::int64_t m : kRows)
      for (const std::int64_t n : kColumns)
        for (const std::int64_t k : kDepths) found.of_extents({.m = m, .n = n, .k = k});
    return {found.rows_.begin(), found.rows_.end()};
  }

 private:
  using Class = ChosenProduct::Class;
  using Variant = ChosenProduct::Variant;

  void of_extents(MatmulProblem p) {
    const auto as = [&](DType operands, Class type) {
      p.operands = operands;
      p.tf32 = type == Class::Tf32;
      p.fp32_promotion = type == Class::Promoted;
      for (const bool for_sm_80 : {true, false}) of_layouts(p, type, for_sm_80);
    };
    as(DType::bf16, Class::Halves);
    as(DType::i8, Class::Bytes);
    as(DType::f8e4m3, Class::Promoted);
    as(DType::f32, Class::Tf32);
    as(DType::f32, Class::Fma);
  }

  void of_layouts(MatmulProblem p, Class type, bool for_sm_80) {
    const bool any = type == Class::Halves || type == Class::Fma;
    for (const bool a : {true, false})
      for (const bool b : {true, false}) {
        if (!any && !(a && b)) continue;
        p.a_k_major = a, p.b_k_major = b;
        of_lines(p, type, for_sm_80);
      }
  }

  void of_lines(MatmulProblem p, Class type, bool for_sm_80) {
    for (const bool a : {true, false})
      for (const bool b : {true, false}) {
        // Nothing requests the lines of others.
        if ((type != Class::Halves || for_sm_80) && !(a && b)) continue;
        p.a_lines = a ? LinePhase::whole : LinePhase::split;
        p.b_lines = b ? LinePhase::whole : LinePhase::split;
        for (const bool copies : {false, true}) {
          // Line alignment, of which only a shallow MMA of halves takes note; copies are
          // line-aligned.
          if (copies && !(type == Class::Halves && a && b)) continue;
          p.repacks_a = p.repacks_b = copies;
          of_ways(p, type, for_sm_80);
        }
      }
  }

  void of_ways(MatmulProblem p, Class type, bool for_sm_80) {
    const auto add = [&](Variant variant, const MatmulConfig& c) {
      rows_.insert(collapsed({type, variant, p.a_k_major, p.b_k_major, for_sm_80, c}));
    };
    DeviceProfile gpu = host_profile();
    if (for_sm_80) gpu.capability = 80;
    for (const int matrices : {0, 1}) {
      p.epilogue_matrices = matrices;
      p.batch = 1, p.is_batched = false;
      add(matrices ? Variant::Epilogue : Variant::Plain, choose_matmul(p, gpu));
      p.batch = 3, p.is_batched = true;
      add(matrices ? Variant::BatchedEpilogue : Variant::Batched, choose_matmul(p, gpu));
    }
    p.epilogue_matrices = 0, p.batch = 1, p.is_batched = false, p.gates = 2;
    if (type == Class::Halves || type == Class::Bytes) add(Variant::Gated, choose_matmul(p, gpu));
  }

  /// Without what changes no kernel: how many parts there are that another kernel adds, and with
  /// what epilogue.
  static ChosenProduct collapsed(ChosenProduct p) {
    if (p.config.split == SplitK::partials) {
      p.config.parts = 2;
      p.variant = Variant::SplitK;
    }
    return p;
  }

  std::set<ChosenProduct> rows_;
};

}  // namespace tegula::test
