// Gradients of the norms. Each program processes consecutive rows and accumulates partial sums of
// the gradients of weight and bias; a second launch adds them in the order of the programs.
#include <algorithm>
#include <array>
#include <bit>
#include <optional>

#include "kernels/float_types.h"
#include "kernels/row_tiles.h"
#include "tegula/call_plan.h"
#include "tegula/device_profile.h"
#include "tegula/int_math.h"
#include "tegula/kernels/norm.h"
#include "tegula/tegula.h"

namespace tegula::kernels {
namespace {

/// Longest row, in columns, for which a program keeps its partial sums in registers in addition to
/// the row; and longest row with sums for two gradients.
constexpr std::int64_t kMaxCarriedColumns = 16384, kMaxTwiceCarriedColumns = 8192;
/// Longest row, in columns, that shares a program; longer rows fill a warp.
constexpr std::int64_t kMaxShortColumns = 128;
/// Longest row, in columns, for which the next row is prefetched during the computation.
constexpr std::int64_t kMaxPrefetchedColumns = 8192;
constexpr int kNormBackwardStep = 8192;
/// Tile of sums over long rows, and tile of partial sums: the latter has few columns and many
/// programs, so that enough programs add them.
constexpr int kSummedRows = 32, kSummedColumns = 128;
constexpr int kFoldedPrograms = 256, kFoldedColumns = 32;

/// Statistics of some rows from the forward pass.
struct RowStatistics {
  Tile mean, rstd;
};

template <class T>
struct BackwardInputs {
  In<T, 2> dy, x;
  std::optional<In<T, 1>> weight;
  std::optional<In<f32, 1>> mean;
  In<f32, 1> rstd;

  RowStatistics statistics(const Index& r) const {
    return {mean ? fill_absent((*mean)(r), 0) : Tile(0.0f), fill_absent(rstd(r), 0)};
  }
  /// Returns the normalised elements.
  Tile normalised(const Tile& x_tile, const RowStatistics& of_row) const {
    const Tile v = cast<f32>(x_tile);
    return (mean ? v - along_row(of_row.mean) : v) * along_row(of_row.rstd);
  }
  /// Returns the gradient of the normalised elements.
  Tile scaled(const Tile& dy_tile, const Subscript& c) const {
    return weight ? cast<f32>(dy_tile) * cast<f32>((*weight)(c)) : cast<f32>(dy_tile);
  }
};

/// Gradient of x, and gradient of the stored sum, which is added to it.
template <class T>
struct RowGradients {
  std::optional<In<T, 2>> dsum;
  Out<T, 2> dx;
};

/// Sums over the rows of each program: [programs, columns].
struct PartialSums {
  std::optional<Out<f32, 2>> weight, bias;
};

/// Row means of the gradient of the normalised elements, and of that gradient times the elements.
struct RowMeans {
  Tile gradient, dot;
};

template <class T>
RowMeans means_of(const BackwardInputs<T>& t, const Tile& sum_of_gradient, const Tile& sum_of_dot) {
  const Tile columns = cast<f32>(t.x.cols());
  return {along_row(sum_of_gradient / columns), along_row(sum_of_dot / columns)};
}

template <class T>
void store_gradient(const BackwardInputs<T>& t, const RowGradients<T>& to, const Index& r,
                    const Subscript& c, const Tile& g, const Tile& normalised, const Tile& rstd,
                    const RowMeans& means) {
  const Tile centred = t.mean ? g - means.gradient : g;
  Tile dx = (centred - normalised * means.dot) * along_row(rstd);
  if (to.dsum) dx = dx + cast<f32>((*to.dsum)(r, c));
  to.dx(r, c) = dx;
}

/// Consecutive rows of a program, processed in blocks.
struct ProgramRows {
  Tile first, end;
  int block;

  tegula::detail::LoopRange all_steps() const { return steps(first, end, block); }
  Index begin() const { return Index(first, block); }
  /// Returns the rows after these; after the last, rows outside of all tensors with `rows` rows.
  Index after(const Index& r, const Tile& rows) const {
    const Tile next = r.first() + block;
    return Index(where(next < end, next, rows), block);
  }
};
ProgramRows rows_of(const Index& program, const Tile& rows, const Arg& programs, int block) {
  const Tile share = cdiv(rows, programs * block) * block, first = program.first() * share;
  return {first, min(first + share, rows), block};
}

/// Returns a tile of zeros with the shape of whole rows.
template <class T>
Tile zeros_of_rows(const In<T, 2>& x, int tile_rows) {
  const std::int64_t columns = x(slice(0, 1), all).shape()[0];
  return tile_rows > 1 ? zeros<f32>(tile_rows, columns) : zeros<f32>(columns);
}

/// Rows as stored in memory; absent elements are 0.
struct LoadedRows {
  Tile x, dy;
  RowStatistics statistics;
};
template <class T>
LoadedRows load_rows(const BackwardInputs<T>& t, const Index& r) {
  return {fill_absent(t.x.with(kReadOnce)(r, all), 0), fill_absent(t.dy.with(kReadOnce)(r, all), 0),
          t.statistics(r)};
}

/// Iteration over the rows of a program: rows per iteration, and whether the next rows are
/// prefetched during the computation, which needs additional registers.
struct RowSteps {
  int rows;
  bool are_prefetched;
};

template <class T>
auto gradients_of_held_rows() {
  return kernel("norm_backward", [](BackwardInputs<T> t, RowGradients<T> to, PartialSums parts,
                                    Scalar<i32> programs, RowSteps by) {
    for (auto p : grid({programs}, 1)) {
      grid_launch_dependents();
      const ProgramRows rows = rows_of(p, t.x.rows(), programs, by.rows);
      Tile dweight = zeros_of_rows(t.x, by.rows), dbias = dweight;
      LoadedRows next = load_rows(t, rows.begin());
      for (auto r : rows.all_steps()) {
        const auto [x, dy, statistics] = by.are_prefetched ? next : load_rows(t, r);
        if (by.are_prefetched) next = load_rows(t, rows.after(r, t.x.rows()));
        const Tile normalised = t.normalised(x, statistics), g = t.scaled(dy, all);
        if (parts.weight) dweight += cast<f32>(dy) * normalised;
        if (parts.bias) dbias += cast<f32>(dy);
        const Tile gradient = t.mean ? sum(g, -1) : Tile(0.0f);
        store_gradient(t, to, r, all, g, normalised, statistics.rstd,
                       means_of(t, gradient, sum(g * normalised, -1)));
      }
      const auto of_columns = [&](const Tile& sums) { return by.rows > 1 ? sum(sums, 0) : sums; };
      if (parts.weight) (*parts.weight)(p, all) = of_columns(dweight);
      if (parts.bias) (*parts.bias)(p, all) = of_columns(dbias);
    }
  });
}

/// Gradient of x only, for rows that are read twice.
template <class T>
auto gradient_in_two_passes() {
  return kernel("norm_backward_two_pass", [](BackwardInputs<T> t, RowGradients<T> to) {
    for (auto r : grid(rows(to.dx), 1)) {
      const RowStatistics statistics = t.statistics(r);
      Tile dot = zeros<f32>(kNormBackwardStep), gradient = dot;
      for (auto c : steps(t.x.cols(), kNormBackwardStep)) {
        const Tile g = t.scaled(t.dy(r, c), c);
        dot += g * t.normalised(t.x(r, c), statistics);
        if (t.mean) gradient += g;
      }
      const RowMeans means = means_of(t, sum(gradient), sum(dot));
      for (auto c : steps(t.x.cols(), kNormBackwardStep))
        store_gradient(t, to, r, c, t.scaled(t.dy(r, c), c), t.normalised(t.x(r, c), statistics),
                       statistics.rstd, means);
    }
  });
}

/// Partial sums of long rows: each program processes some rows and some columns.
template <class T>
auto sums_of_columns() {
  return kernel("norm_backward_sums",
                [](BackwardInputs<T> t, PartialSums parts, Scalar<i32> programs) {
                  for (auto [p, c] : grid({programs, t.x.cols()}, 1, kSummedColumns)) {
                    Tile dweight = zeros<f32>(kSummedRows, kSummedColumns), dbias = dweight;
                    for (auto r : rows_of(p, t.x.rows(), programs, kSummedRows).all_steps()) {
                      const Tile dy = cast<f32>(t.dy(r, c));
                      if (parts.weight) dweight += dy * t.normalised(t.x(r, c), t.statistics(r));
                      if (parts.bias) dbias += dy;
                    }
                    if (parts.weight) (*parts.weight)(p, c) = sum(dweight, 0);
                    if (parts.bias) (*parts.bias)(p, c) = sum(dbias, 0);
                  }
                });
}

/// Sums over the programs.
template <class T>
auto sum_of_programs() {
  return kernel("norm_backward_programs", [](In<f32, 2> parts, Out<T, 1> y) {
    for (auto c : grid(y, kFoldedColumns)) {
      grid_dependency_wait();
      Tile total = zeros<f32>(kFoldedPrograms, kFoldedColumns);
      for (auto p : steps(parts.rows(), kFoldedPrograms)) total += parts(p, c);
      y(c) = sum(total, 0);
    }
  });
}

/// Longest row, in columns, for which the plan is given of programs that sum gradients of weight
/// and bias, or whose rows are f32: a thread holds 16 elements. The compiler would choose 32, with
/// which a thread needs over 200 registers and rows of 1024 columns took 3 % more time (H200,
/// bench/results/sweeps/2026-11-30-h200-compare.jsonl).
constexpr std::int64_t kMaxGivenColumns = 4096;
template <int warps>
constexpr PlanPatch kGivenWarps{.num_warps = warps, .min_ctas_per_sm = 1};

template <class T>
struct BackwardKernels {
  using Held = decltype(gradients_of_held_rows<T>());
  Held held = gradients_of_held_rows<T>();
  std::array<Held, 4> given{held.with_plan(kGivenWarps<1>), held.with_plan(kGivenWarps<2>),
                            held.with_plan(kGivenWarps<4>), held.with_plan(kGivenWarps<8>)};
  decltype(gradient_in_two_passes<T>()) two_pass = gradient_in_two_passes<T>();
  decltype(sums_of_columns<T>()) column_sums = sums_of_columns<T>();
};

/// Returns the index in `given` for rows of this many columns.
std::size_t log_of_given_warps(std::int64_t columns) {
  constexpr std::int64_t kColumnsOfWarp = 512;
  return std::bit_width(static_cast<std::uint64_t>((columns - 1) / kColumnsOfWarp));
}

/// Builds the plan of a backward call; its arguments are in the order of `Slot`.
class NormBackwardPlan {
 public:
  enum Slot : std::uint8_t { dy, x, weight, mean, rstd, dsum, dx, dweight, dbias };

  explicit NormBackwardPlan(PlanBuilder& plan) : plan_(plan) {}

  template <class T>
  void build() const {
    static const auto* const kernels = new BackwardKernels<T>;
    const Tensor& rows = plan_.tensor(arg(x));
    const std::int64_t columns = rows.size(1);
    const bool is_held = columns <= kMaxCarriedColumns;
    const bool carries_both = columns <= kMaxTwiceCarriedColumns || !has(dweight);
    const int tile_rows = columns <= kMaxShortColumns ? rows_per_tile(columns) : 1;
    const auto programs = static_cast<std::int32_t>(programs_for(rows, tile_rows));
    const PlanSlot w = partial(dweight, programs, columns), b = partial(dbias, programs, columns);
    const PlanSlot none, carried_b = carries_both ? b : none;
    const bool are_prefetched = tile_rows == 1 && columns <= kMaxPrefetchedColumns;
    const bool has_given_plan = are_prefetched && columns <= kMaxGivenColumns &&
                                (has(dweight) || has(dbias) || sizeof(T) == 4);
    if (is_held)
      launch(has_given_plan ? kernels->given[log_of_given_warps(columns)] : kernels->held,
             arg(dsum), arg(dx), w, carried_b, programs, tile_rows, are_prefetched);
    else
      launch(kernels->two_pass, arg(dsum), arg(dx));
    const PlanSlot summed_w = is_held ? none : w, summed_b = is_held && carries_both ? none : b;
    if (summed_w != none || summed_b != none)
      launch(kernels->column_sums, summed_w, summed_b, programs);
    add_up(w, dweight), add_up(b, dbias);
  }

 private:
  PlanSlot arg(Slot slot) const { return plan_.argument(slot); }
  bool has(Slot slot) const { return plan_.tensor(arg(slot)).defined(); }
  PlanSlot partial(Slot gradient, std::int64_t programs, std::int64_t columns) const {
    return has(gradient) ? plan_.scratch({programs, columns}, DType::f32) : PlanSlot();
  }
  /// Returns the number of co-resident programs: a thread with 32 elements uses over 200 registers.
  std::int64_t programs_for(const Tensor& rows, int tile_rows) const {
    constexpr std::int64_t kMaxOfSm = 24, kHeldBySm = 8192;
    const auto columns = std::bit_ceil(static_cast<std::uint64_t>(rows.size(1)));
    const std::int64_t elements = tile_rows * static_cast<std::int64_t>(columns);
    const std::int64_t of_sm = std::clamp<std::int64_t>(kHeldBySm / elements, 1, kMaxOfSm);
    const std::int64_t tiles = ceil_div<std::int64_t>(rows.size(0), tile_rows);
    return std::clamp<std::int64_t>(tiles, 1, num_sms(plan_.device()) * of_sm);
  }
  template <class K, class... Rest>
  void launch(const K& kernel, const Rest&... rest) const {
    plan_.launch(kernel, arg(dy), arg(x), arg(weight), arg(mean), arg(rstd), rest...);
  }
  void add_up(PlanSlot partials, Slot gradient) const {
    if (!has(gradient)) return;
    for_float("norm_backward", plan_.tensor(arg(gradient)).dtype(), [&](auto t) {
      static const auto* const kernel = new auto(sum_of_programs<decltype(t)>());
      plan_.launch(*kernel, partials, arg(gradient));
    });
  }
  PlanBuilder& plan_;
};

void check_norm_backward(const char* name, const NormTape& tape, const Tensor& dy,
                         const NormGradients& gradients, const Tensor& dsum) {
  const Tensor& x = tape.x;
  require_rank(name, "x", x, 2);
  const Dims columns{x.size(1)}, rows{x.size(0)};
  require_tensor(name, "dy", dy, x.dtype(), x.shape());
  require_optional(name, "weight", tape.weight, x.dtype(), columns);
  require_tensor(name, "rstd", tape.rstd, DType::f32, rows);
  require_tensor(name, "the gradient of x", gradients.x, x.dtype(), x.shape());
  const auto require_gradient = [&](const char* which, const Tensor& t) {
    require_optional(name, which, t, t.dtype(), columns);
  };
  require_gradient("the gradient of weight", gradients.weight);
  require_gradient("the gradient of bias", gradients.bias);
  require_optional(name, "dsum", dsum, x.dtype(), x.shape());
}

void backward(const char* name, const Stream& stream, const NormTape& tape, const Tensor& dy,
              const NormGradients& gradients, const Tensor& dsum) {
  check_norm_backward(name, tape, dy, gradients, dsum);
  if (tape.x.size(1) == 0) return;
  for_float(name, tape.x.dtype(), [&]<class T>(T) {
    static const auto* const plans = new CallPlans;  // leaked: static destructors may call
    const auto args = tensor_args(dy, tape.x, tape.weight, tape.mean, tape.rstd, dsum, gradients.x,
                                  gradients.weight, gradients.bias);
    plans->call(stream, args, {}, [&](PlanBuilder& plan) { NormBackwardPlan(plan).build<T>(); });
  });
}

}  // namespace

void rms_norm_backward(const Stream& stream, const NormTape& tape, const Tensor& dy,
                       const NormGradients& gradients, const Tensor& dsum, Loc at) {
  const detail::CallPlace here(at);
  for (const Tensor* centred : {&tape.mean, &gradients.bias})
    if (centred->defined())
      throw_argument_error(ErrorId::kernel_argument, "rms_norm_backward",
                           centred == &tape.mean ? "mean" : "the gradient of bias", centred->str(),
                           "none: the rows are not centred");
  backward("rms_norm_backward", stream, tape, dy, gradients, dsum);
}

void layer_norm_backward(const Stream& stream, const NormTape& tape, const Tensor& dy,
                         const NormGradients& gradients, const Tensor& dsum, Loc at) {
  const detail::CallPlace here(at);
  if (tape.x.rank() == 2)
    require_tensor("layer_norm_backward", "mean", tape.mean, DType::f32, {tape.x.size(0)});
  backward("layer_norm_backward", stream, tape, dy, gradients, dsum);
}

}  // namespace tegula::kernels
