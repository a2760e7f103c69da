// Kernels over whole rows. The model keeps a row in the registers of a CTA if it fits, else in
// those of a cluster, else reads it twice.
#include "autotune/rows/space.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "autotune/calls/decision.h"
#include "tegula/int_math.h"

namespace tegula {
namespace autotune {
namespace row_rules {
namespace {

using P = RowProblem;
using C = RowConfig;

/// Elements that fit in the registers of a CTA, and columns per CTA of a cluster.
constexpr std::int64_t kHeldElements = 32768, kColumnsOfCta = 16384;

constexpr int kMethods[] = {static_cast<int>(RowMethod::held), static_cast<int>(RowMethod::cluster),
                            static_cast<int>(RowMethod::two_pass)};
constexpr int kTileRows[] = {1, 2, 4, 8, 16, 32, 64};
constexpr int kCtas[] = {1, 2, 4, 8};
constexpr int kColumns[] = {0, 16384, 8192, 4096};
constexpr Axis<C> kAxes[] = {
    {"method", [](C& c, int v) { c.method = static_cast<RowMethod>(v); }, kMethods},
    {"tile_rows", [](C& c, int v) { c.tile_rows = v; }, kTileRows},
    {"ctas", [](C& c, int v) { c.ctas = v; }, kCtas},
    {"columns_of_cta", [](C& c, int v) { c.columns_of_cta = v; }, kColumns},
};

std::int64_t padded_columns(const P& p) {
  return static_cast<std::int64_t>(
      std::bit_ceil(static_cast<std::uint64_t>(std::max<std::int64_t>(p.columns, 1))));
}
/// The gradient is kept in addition to the results.
std::int64_t held_elements(const P& p) {
  return p.kernel == RowKernel::softmax_backward ? kHeldElements / 2 : kHeldElements;
}
bool is_held(const C& c) { return c.method == RowMethod::held; }
bool is_cluster(const C& c) { return c.method == RowMethod::cluster; }

bool is_longer_than_registers(const P& p, const C& c, const Limits&) {
  return is_held(c) && padded_columns(p) > held_elements(p);
}
bool has_cluster_form(const P& p, const Limits& gpu) {
  return gpu.target->has_clusters &&
         (p.kernel == RowKernel::softmax || p.kernel == RowKernel::softmax_backward);
}
bool has_no_clusters(const P& p, const C& c, const Limits& gpu) {
  return is_cluster(c) && !has_cluster_form(p, gpu);
}
bool has_no_second_pass(const P& p, const C& c, const Limits&) {
  return c.method == RowMethod::two_pass && p.kernel == RowKernel::hadamard;
}
bool is_not_the_first_that_fits(const P& p, const C& c, const Limits& gpu) {
  if (padded_columns(p) <= held_elements(p)) return !is_held(c);
  const bool fits_cluster = has_cluster_form(p, gpu) && p.columns <= 8 * kColumnsOfCta;
  return is_cluster(c) != fits_cluster;
}
bool has_rows_for_nothing(const P& p, const C& c, const Limits&) {
  return is_held(c) ? c.tile_rows * padded_columns(p) > held_elements(p) : c.tile_rows > 1;
}
bool has_other_rows(const P& p, const C& c, const Limits&) {
  return is_held(c) && c.tile_rows != rows_per_tile(p.columns);
}
bool has_ctas_for_nothing(const P&, const C& c, const Limits&) {
  return is_cluster(c) != (c.ctas > 1);
}
bool does_not_hold_the_row(const P& p, const C& c, const Limits&) {
  if (!is_cluster(c)) return c.columns_of_cta != 0;
  return c.columns_of_cta == 0 || p.columns > std::int64_t{c.ctas} * c.columns_of_cta;
}

/// Returns columns per CTA such that several CTAs share an SM, and one loads while another waits
/// for its cluster. Gradients of 32768 columns took 10 % longer in halves of a row, f32 softmax of
/// 65536 columns 44 % longer in quarters (H100,
/// bench/results/sweeps/2026-11-27-h100-row-clusters.txt).
std::int64_t columns_wanted(const P& p) {
  constexpr std::int64_t kMost = 8;
  if (p.kernel == RowKernel::softmax_backward && p.columns <= kMost * 4096) return 4096;
  return p.type == DType::f32 && p.columns <= kMost * 8192 ? 8192 : kColumnsOfCta;
}
bool is_other_cluster(const P& p, const C& c, const Limits&) {
  return is_cluster(c) && (c.columns_of_cta != columns_wanted(p) ||
                           (c.ctas > 2 && p.columns <= c.ctas / 2 * columns_wanted(p)));
}

using enum Severity;
constexpr Rule<P, C> kRules[] = {
    {"registers", "the row does not fit in a CTA's registers", refused, 0,
     is_longer_than_registers},
    {"clusters", "the target has no clusters, or the kernel has no cluster reduction", refused, 0,
     has_no_clusters},
    {"passes", "all of a row is transformed at once", refused, 0, has_no_second_pass},
    {"method", "a row that is kept in registers is read once", dominated, 0,
     is_not_the_first_that_fits},
    {"rows", "so many rows do not fit in a CTA's registers", refused, 1, has_rows_for_nothing,
     true},
    {"rows_of_tile", "a warp must hold a whole row, with accesses of 16 bytes", dominated, 1,
     has_other_rows},
    {"ctas", "only clusters have several CTAs", refused, 2, has_ctas_for_nothing},
    {"row", "the row does not fit in the cluster's registers", refused, 3, does_not_hold_the_row},
    {"least_cluster", "CTAs of other widths, or more CTAs than the row needs, were slower",
     dominated, 3, is_other_cluster},
};

/// Counts each byte once. A second pass reads from the L2 and waits for the first; few or small
/// CTAs leave the memory idle between their requests.
double cycles(const P& p, const C& c, const DeviceProfile& gpu) {
  const double bytes =
      static_cast<double>(p.rows) * static_cast<double>(p.columns) * size_bytes(p.type) * p.tensors;
  const double ctas = std::max(static_cast<double>(ceil_div(p.rows, c.tile_rows)) * c.ctas, 1.0);
  const double waves = std::ceil(ctas / gpu.num_sms),
               reads = c.method == RowMethod::two_pass ? 1.5 : 1;
  const double exchange = is_cluster(c) ? gpu.cost.cluster_sum : 0;
  return gpu.cost.launch + reads * bytes / gpu.cost.hbm_bytes +
         waves * (exchange + gpu.cost.latency / 8);
}

/// Configurations differ in the order of their sums. Maxima and butterflies do not depend on it.
std::uint64_t numerics(const P& p, const C& c, const Limits&) {
  return p.kernel == RowKernel::hadamard || p.kernel == RowKernel::quantise ? 0 : hash_of(c);
}

}  // namespace
}  // namespace row_rules

const RowSpace& row_space() {
  using namespace row_rules;
  static const RowSpace space{kAxes,
                              kRules,
                              [](const P&, const Limits&) { return C{}; },
                              [](C c, const P&, const Limits&) { return c; },
                              cycles,
                              numerics};
  return space;
}

}  // namespace autotune

int rows_per_tile(std::int64_t columns) {
  constexpr std::uint64_t kElements = 4096, kMaxRows = 64;
  const std::uint64_t held = std::bit_ceil(static_cast<std::uint64_t>(columns > 1 ? columns : 1));
  if (held > 1024) return 1;
  return static_cast<int>(kElements / held < kMaxRows ? kElements / held : kMaxRows);
}

RowConfig choose_rows(const RowProblem& problem, const DeviceProfile& gpu) {
  return autotune::choose(problem, autotune::row_space(), gpu).config;
}
RowConfig choose_rows(const RowProblem& problem, Device device) {
  return autotune::decide({"rows"}, problem, autotune::row_space(), device);
}

}  // namespace tegula
