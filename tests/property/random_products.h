#pragma once
// Matmuls of random shapes, types, layouts, tiles and plans on the simulator, whose detectors turn
// any race, deadlock, missing fence or wait into an error; sums of small integers must be exact. A
// form is the subject of one test: it sets a few fields and draws all others, and counts a draw
// only if the compiled kernel has the form.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <initializer_list>
#include <map>
#include <random>
#include <string>
#include <string_view>
#include <utility>

#include "support/env.h"
#include "tegula/kernels/fused_matmul.h"
#include "tegula/tegula.h"
#include "tests/differential/exact_matmul.h"

namespace tegula::test {
using namespace kernels;

class Draws {
 public:
  explicit Draws(std::uint64_t seed) : bits_(seed) {}
  int between(int low, int high) {
    return low + static_cast<int>(bits_() % static_cast<std::uint64_t>(high - low + 1));
  }
  bool flip() { return between(0, 1) == 1; }
  /// Returns true once in n calls, on average.
  bool rarely(int n) { return between(1, n) == 1; }
  template <class T>
  T of(std::initializer_list<T> list) {
    return list.begin()[between(0, static_cast<int>(list.size()) - 1)];
  }

 private:
  std::mt19937_64 bits_;
};

/// How a matrix is in memory: rows or columns contiguous, those longer by `padding` elements, of
/// which `offset` come first.
struct Placement {
  bool transposed = false;
  int padding = 0, offset = 0;

  Dims stored(std::int64_t batch, std::int64_t rows, std::int64_t cols) const {
    return transposed ? Dims{batch, cols, rows + padding} : Dims{batch, rows, cols + padding};
  }
  /// Returns the matrix as a view of a tensor that has room for it.
  Tensor matrix_of(const Tensor& whole, std::int64_t rows, std::int64_t cols) const {
    const Tensor part = whole.slice(2, offset, offset + (transposed ? rows : cols));
    return transposed ? part.transpose(1, 2) : part;
  }
  std::string str() const {
    return (transposed ? "T+" : "N+") + std::to_string(padding) + "@" + std::to_string(offset);
  }
};

struct DrawnProduct {
  DType operands = DType::bf16, result = DType::f32;
  std::int64_t batch = 0;  ///< 0: matrices
  std::int64_t m = 0, n = 0, k = 0;
  Placement a, b, c;
  bool one_b = false;  ///< one matrix for the whole batch
  MatmulConfig config;
  MatmulOptions options;
  std::map<std::string, int> plan;

  bool is_of_integers() const { return operands == DType::i8 || operands == DType::u8; }
  bool is_streamed() const { return config.split == SplitK::stream && k > 0; }
  int rows() const { return config.swap_ab ? config.bn : config.bm; }
  int columns() const { return config.swap_ab ? config.bm : config.bn; }
  int step_bytes() const { return (config.bm + config.bn) * config.bk * size_bytes(operands); }
  std::string plan_text() const {
    std::string text;
    for (const auto& [field, value] : plan) text += field + "=" + std::to_string(value) + " ";
    return text;
  }
  std::string str() const {
    return std::string(name(operands)) + " to " + std::string(name(result)) + " " +
           Dims{batch, m, n, k}.str() + " A " + a.str() + " B " + b.str() +
           (one_b ? " (one)" : "") + " C " + c.str() + " " + config.str() +
           (options.fp32_promotion ? " promoted" : "") + (options.tf32 ? " tf32" : "") + " plan " +
           plan_text();
  }
};

/// A form of matmuls: the fields it forces, and how the compiled kernel shows it.
struct ProductForm {
  const char* name;
  void (*force)(Draws&, DrawnProduct&);
  bool (*is_used)(const DrawnProduct&, std::string_view said);
};

inline bool says(std::string_view said, std::string_view what) {
  return said.find(what) != std::string_view::npos;
}
inline bool is_by_wgmma(std::string_view said) { return says(said, "dot by wgmma"); }

// ---- drawing ------------------------------------------------------------------------------------

inline void draw_types(Draws& d, DrawnProduct& x) {
  using enum DType;
  x.operands = d.of({bf16, bf16, f16, f32, f8e4m3, f8e5m2, i8, u8});
  const bool wide = d.flip();
  if (x.is_of_integers())
    x.result = wide ? i32 : f32;
  else if (size_bytes(x.operands) == 2)
    x.result = wide ? f32 : x.operands;
  else if (x.operands != f32)
    x.result = wide ? f32 : d.of({bf16, f16});
  x.options.tf32 = x.operands == f32;
  x.options.fp32_promotion = size_bytes(x.operands) == 1 && !x.is_of_integers() && d.flip();
}

inline Placement draw_placement(Draws& d, bool mostly_transposed, bool is_even) {
  Placement at;
  at.transposed = is_even ? d.flip() : d.rarely(5) != mostly_transposed;
  if (d.rarely(4)) at.padding = d.flip() ? 16 * d.between(1, 3) : d.between(1, 20);
  if (at.padding > 0 && d.flip()) at.offset = d.between(0, at.padding);
  return at;
}

inline void draw_shape(Draws& d, DrawnProduct& x) {
  x.m = d.flip() ? 8 * d.between(1, 17) : d.between(1, 136);
  x.n = d.between(0, 3) != 0 ? 8 * d.between(1, 17) : d.between(1, 136);
  x.k = d.between(0, 3) != 0 ? 16 * d.between(0, 16) : d.between(0, 256);
  if (d.rarely(8)) x.batch = d.between(1, 3), x.one_b = d.flip();
  // Mostly k is contiguous, as wgmma requires for 8 and 32 bits.
  x.a = draw_placement(d, false, size_bytes(x.operands) == 2);
  x.b = draw_placement(d, true, size_bytes(x.operands) == 2);
  x.c = draw_placement(d, false, false);
}

inline void draw_config(Draws& d, DrawnProduct& x) {
  const int per_step = 128 / size_bytes(x.operands);
  MatmulConfig& c = x.config;
  c.bk = d.of({per_step / 4, per_step / 2, per_step / 2, per_step, per_step, 2 * per_step});
  c.swap_ab = d.rarely(5);
  c.bm = c.swap_ab ? 8 * d.between(1, d.flip() ? 4 : 12) : d.of({64, 64, 128, 128, 192, 256});
  c.bn = c.swap_ab ? d.of({64, 128, 192}) : 8 * d.between(1, d.flip() ? 12 : 32);
  c.parts = d.of({1, 1, 1, 2, 3});
  if (c.parts > 1) c.split = SplitK::partials;
  c.stages = d.flip() ? d.between(2, 8) : 0;
  if (d.rarely(6)) c.operands = OperandPath::direct;
  if (d.flip()) c.multicast = Multicast::b;
  c.pingpong = d.rarely(4);
  c.tma_store = d.rarely(3);
  if (d.rarely(8)) c.split = SplitK::stream, c.parts = d.between(1, 12);
  c.group_m = d.of({1, 2, 4, 8, 8, 8});
}

inline void draw_plan(Draws& d, DrawnProduct& x) {
  x.plan = {{"persistent", d.between(0, 2) != 0},
            {"dynamic_scheduler", d.rarely(4)},
            {"stage_stores", d.flip()},
            {"producer_warps", x.config.pingpong ? d.of({1, 4}) : d.of({0, 1, 4})},
            {"consumer_registers", 0},
            {"epilogue_tile_n", d.of({0, 16, 32, 48, 64})}};
  if (d.flip()) x.plan["stages"] = d.between(2, 8);
}

/// Widths that wgmma supports and a thread's registers hold, and rings that fit. The library
/// chooses other widths and depths; the tests of its configurations cover them.
inline void fit_to_machine(DrawnProduct& x) {
  const int rows = x.rows();
  int& columns = x.config.swap_ab ? x.config.bm : x.config.bn;
  columns = std::min(columns, rows <= 128 ? 256 : rows == 192 ? 192 : 128);
  if (x.options.fp32_promotion) columns = std::min(columns, 128);
  if (x.is_of_integers() && columns > 32) columns = columns / 16 * 16;
  constexpr int kRoom = 160 * 1024;
  // With stream-K, accumulators change their layout in memory next to the ring: with fields of a
  // plan that request it, shared memory may have no room for two slots, and the plan is refused.
  const int scratch = x.is_streamed() ? 4 * rows * columns - 56 * 1024 : 0;
  while (2 * x.step_bytes() > kRoom - std::max(scratch, 0)) x.config.bk /= 2;
  if (x.plan.contains("stages"))
    x.plan["stages"] = std::min(kRoom / x.step_bytes(), x.plan["stages"]);
}

inline DrawnProduct draw_product(Draws& d, const ProductForm& form) {
  DrawnProduct x;
  draw_types(d, x);
  draw_shape(d, x);
  draw_config(d, x);
  draw_plan(d, x);
  form.force(d, x);
  fit_to_machine(x);
  return x;
}

// ---- what several forms force -------------------------------------------------------------------

/// Operands that a wgmma can read as they are stored, without a copy.
inline void lie_for_tma(DrawnProduct& x) {
  const auto up = [](std::int64_t extent) {
    return std::max<std::int64_t>(16, (extent + 15) / 16 * 16);
  };
  x.m = up(x.m), x.n = up(x.n), x.k = up(x.k);
  for (Placement* at : {&x.a, &x.b}) at->padding = at->padding / 16 * 16, at->offset = 0;
  if (size_bytes(x.operands) != 2) x.a.transposed = false, x.b.transposed = true;
}
/// Products that wgmma computes; operands may have to be copied first.
inline void force_wgmma(DrawnProduct& x) {
  x.k = std::max<std::int64_t>(x.k, 1);
  x.config.operands = OperandPath::tma;
  // Rows of 32 bytes are the shortest that a swizzle has.
  if (size_bytes(x.operands) == 2 && !x.config.swap_ab)
    x.config.bn = std::max(16, x.config.bn / 16 * 16);
  if (size_bytes(x.operands) == 2 && x.config.swap_ab)
    x.config.bm = std::max(16, x.config.bm / 16 * 16);
}
/// One kernel with one program per tile.
inline void force_whole(DrawnProduct& x) {
  force_wgmma(x);
  x.config.split = SplitK::none;
  x.config.parts = 1;
}
inline void force_persistent(DrawnProduct& x) {
  force_whole(x);
  x.plan["persistent"] = 1;
}
inline void not_swapped(Draws& d, DrawnProduct& x, int bm) {
  if (x.config.swap_ab) x.config.bn = 16 * d.between(1, 12);
  x.config.swap_ab = false;
  x.config.bm = bm;
}

// ---- running ------------------------------------------------------------------------------------

struct PlainEpilogue {
  Tile operator()(Tile acc, Index, Index) const { return acc; }
};

/// Makes a kernel for this matmul; returns its plan and the remarks.
template <class T, class O>
std::string run_product(const DrawnProduct& x, const Tensor& A, const Tensor& B, const Tensor& C) {
  const Stream stream(Device::sim());
  const auto fused = fused_matmul<T, O>(PlainEpilogue{}, x.options);
  fused.run(x.config, stream, A, B, C);
  return fused.explain(x.config);
}

inline std::string run_typed(const DrawnProduct& x, const Tensor& A, const Tensor& B,
                             const Tensor& C) {
  using Run = std::string (*)(const DrawnProduct&, const Tensor&, const Tensor&, const Tensor&);
  static const std::map<std::pair<DType, DType>, Run> kRuns{
      {{DType::bf16, DType::bf16}, run_product<bf16, tegula::bf16>},
      {{DType::bf16, DType::f32}, run_product<bf16, tegula::f32>},
      {{DType::f16, DType::f16}, run_product<f16, tegula::f16>},
      {{DType::f16, DType::f32}, run_product<f16, tegula::f32>},
      {{DType::f32, DType::f32}, run_product<f32, tegula::f32>},
      {{DType::f8e4m3, DType::bf16}, run_product<f8e4m3, tegula::bf16>},
      {{DType::f8e4m3, DType::f16}, run_product<f8e4m3, tegula::f16>},
      {{DType::f8e4m3, DType::f32}, run_product<f8e4m3, tegula::f32>},
      {{DType::f8e5m2, DType::bf16}, run_product<f8e5m2, tegula::bf16>},
      {{DType::f8e5m2, DType::f16}, run_product<f8e5m2, tegula::f16>},
      {{DType::f8e5m2, DType::f32}, run_product<f8e5m2, tegula::f32>},
      {{DType::i8, DType::i32}, run_product<i8, tegula::i32>},
      {{DType::i8, DType::f32}, run_product<i8, tegula::f32>},
      {{DType::u8, DType::i32}, run_product<u8, tegula::i32>},
      {{DType::u8, DType::f32}, run_product<u8, tegula::f32>},
  };
  Env with_plan = env();
  with_plan.plan = x.plan_text();
  const EnvOverride scope(with_plan);
  return kRuns.at({x.operands, x.result})(x, A, B, C);
}

/// Runs the matmul and compares the whole tensor that contains C; returns the plan and the remarks.
inline std::string check_product(const DrawnProduct& x) {
  constexpr double kUnset = -77;
  const std::int64_t batch = std::max<std::int64_t>(x.batch, 1);
  const auto operand = [&](const Placement& at, std::int64_t count, std::int64_t rows,
                           std::int64_t cols, std::uint64_t seed) {
    const Tensor whole = Tensor::integers(at.stored(count, rows, cols), x.operands,
                                          x.operands == DType::u8 ? 0 : -2, 3, seed, Device::sim());
    const Tensor t = at.matrix_of(whole, rows, cols);
    return x.batch == 0 ? t.select(0, 0) : t;
  };
  const Tensor A = operand(x.a, batch, x.m, x.k, 1),
               stored_b = operand(x.b, x.one_b ? 1 : batch, x.k, x.n, 2),
               B = x.one_b ? Tensor::borrow(stored_b.data(), {batch, x.k, x.n}, x.operands,
                                            stored_b.device(),
                                            {0, stored_b.stride(1), stored_b.stride(2)})
                           : stored_b;
  const Tensor whole = Tensor::full(x.c.stored(batch, x.m, x.n), kUnset, x.result, Device::sim());
  const Tensor C = x.c.matrix_of(whole, x.m, x.n);
  const std::string said = run_typed(x, A, B, x.batch == 0 ? C.select(0, 0) : C);

  const auto sums = product(A, B);
  expect_equal(C, sums);
  double outside = 0;
  for (const double v : whole.to_doubles()) outside += v == kUnset;
  for (const double v : sums) outside -= rounded(v, x.result) == kUnset;
  EXPECT_EQ(outside, static_cast<double>(whole.numel() - C.numel())) << "written outside C";
  return said;
}

// ---- the law ------------------------------------------------------------------------------------

inline constexpr int kOfEachForm = 100;

inline std::uint64_t products_seed() {
  const char* seed = std::getenv("TEGULA_TEST_SEED");
  return seed ? std::strtoull(seed, nullptr, 10) : 20261120;
}

/// The drawn plan needs more shared memory than the target has.
inline bool has_no_room(const std::exception& e) {
  const std::string_view said = e.what();
  return said.find("the plan of TEGULA_PLAN=") != said.npos &&
         said.find("bytes of shared memory") != said.npos;
}

/// Draws until 100 kernels have the form; the results of the others must be exact, too.
inline void expect_exact_in(const ProductForm& form) {
  constexpr int kMaxDraws = 3 * kOfEachForm / 2;
  std::printf("TEGULA_TEST_SEED=%llu\n", static_cast<unsigned long long>(products_seed()));
  std::uint64_t seed = products_seed();
  for (const char* at = form.name; *at != 0; ++at)
    seed = 31 * seed + static_cast<std::uint64_t>(*at);  // other matmuls than other forms have
  Draws d(seed);
  int used = 0, drawn = 0, refused = 0;
  std::map<std::string, int> also;
  while (used < kOfEachForm && drawn < kMaxDraws && !testing::Test::HasFailure()) {
    const DrawnProduct x = draw_product(d, form);
    SCOPED_TRACE("draw " + std::to_string(drawn) + ": " + x.str());
    std::string said;
    try {
      said = check_product(x);
    } catch (const std::exception& e) {
      if (!has_no_room(e)) ADD_FAILURE() << e.what();
      ++refused;
    }
    ++drawn;
    if (!form.is_used(x, said)) continue;
    ++used;
    ++also[std::string(name(x.operands)) + " to " + std::string(name(x.result))];
    if (is_by_wgmma(said)) ++also["wgmma"];
    if (x.batch > 0) ++also["batched"];
    if (x.config.bn > 160) ++also["bn above 160"];
  }
  std::printf("%s: %d of %d draws\n", form.name, used, drawn);
  for (const auto& [what, count] : also) std::printf("  %s: %d\n", what.c_str(), count);
  EXPECT_LE(refused, drawn / 20) << form.name;
  EXPECT_GE(used, kOfEachForm) << form.name;
}

}  // namespace tegula::test
