#include "autotune/matmul/work.h"

#include <algorithm>

#include "tegula/int_math.h"

namespace tegula::autotune {
namespace {

constexpr double kLine = 128;
constexpr int kWord = 4;

/// Returns the L2 requests per line's worth of a row of a TMA box.
double requests_of_a_line(LinePhase phase) {
  return phase == LinePhase::whole ? 1 : phase == LinePhase::half ? 1.5 : 2;
}

/// Returns the lines of one k-iteration of an operand, per tile of `tile` rows, in bounds only. If
/// rows are contiguous instead of k, each row of k has separate lines, and the last one may be
/// partially used.
double lines_of(std::int64_t extent, int tile, std::int64_t bk, int bytes, bool is_k_major,
                LinePhase phase) {
  const double inside = static_cast<double>(extent) / static_cast<double>(ceil_div(extent, tile));
  const double k_bytes = static_cast<double>(bk * bytes);
  const double lines =
      is_k_major
          ? inside * k_bytes / kLine
          : static_cast<double>(bk) *
                static_cast<double>(ceil_div(static_cast<std::int64_t>(inside) * bytes, 128));
  return lines * requests_of_a_line(phase);
}

bool shares_rows(const MatmulProblem& p, const MatmulConfig& c) {
  return p.is_batched || c.split == SplitK::partials;
}

/// Returns the number of consecutive tiles that share an operand: rows of A if the grid has one
/// dimension more than the result (batches, and parts of k), else columns of B.
std::int64_t sharing_tiles(const MatmulProblem& p, const MatmulConfig& c) {
  return shares_rows(p, c) ? ceil_div(p.n, c.bn) : ceil_div(p.m, c.bm);
}

/// Fractions of A's rows and of B's columns that a CTA loads without sharing them. If the number of
/// tiles is odd, one pair shares nothing.
struct Unshared {
  double rows = 1, columns = 1;

  Unshared(const MatmulProblem& p, const MatmulConfig& c) {
    if (c.multicast != Multicast::b) return;
    const std::int64_t tiles = sharing_tiles(p, c);
    const double share = tiles % 2 == 0 ? 0.5 : 0.5 + 0.5 / static_cast<double>(tiles);
    (shares_rows(p, c) ? rows : columns) = share;
  }
};

/// Returns the shared-memory bytes that wgmma reads: each warpgroup reads its 64 rows and all
/// columns.
double smem_bytes_of(AccumulatorShape t, int gates, double k_bytes) {
  const int warpgroups = std::max(t.rows / ir::kWgmmaRows, 1);
  return k_bytes * gates * (t.rows + warpgroups * t.columns / gates);
}

/// Returns the bytes of a stage in separate memory rows, one line each, divided by the number of
/// tiles that request them. If k is contiguous, the stages of a ring continue the same rows.
double scattered_bytes_of_stage(const MatmulProblem& p, const MatmulConfig& c) {
  const double k_bytes = c.bk * size_bytes(p.operands);
  const auto of = [&](int tile, bool is_k_major, std::int64_t sharing_tiles) {
    const auto sharers = static_cast<double>(std::max<std::int64_t>(sharing_tiles, 1));
    return is_k_major ? 0 : tile * k_bytes / sharers;
  };
  return of(c.bm, p.a_k_major, ceil_div(p.n, c.bn)) +
         of(c.bn * p.gates, p.b_k_major, ceil_div(p.m, c.bm));
}

}  // namespace

bool has_shared_operand(const MatmulProblem& p, const MatmulConfig& c) {
  constexpr int kHalves = 2 * 8;  // each CTA loads half of a box, in swizzle atoms of 8 rows
  const bool has_halves = !shares_rows(p, c) || !p.a_k_major || c.bm % kHalves == 0;
  return has_halves && sharing_tiles(p, c) > 1;
}

MmaEngine engine_of(const MatmulProblem& p, const MatmulConfig& c, ir::Target target) {
  const bool is_fma = p.operands == DType::f32 && !p.tf32;
  const bool has_rows = accumulator_of(p, c).rows % ir::kWgmmaRows == 0;
  return target->has_wgmma && !is_fma && has_rows && c.operands == OperandPath::tma
             ? MmaEngine::wgmma
             : MmaEngine::mma_sync;
}

AccumulatorShape accumulator_of(const MatmulProblem& p, const MatmulConfig& c) {
  return c.swap_ab ? AccumulatorShape{c.bn * p.gates, c.bm}
                   : AccumulatorShape{c.bm, c.bn * p.gates};
}

int stage_bytes(const MatmulProblem& p, const MatmulConfig& c) {
  return (c.bm + c.bn * p.gates) * c.bk * size_bytes(p.operands);
}

int stages_that_fit(const MatmulProblem& p, const MatmulConfig& c, ir::Target target) {
  constexpr std::int64_t kMost = 8;
  return static_cast<int>(std::min(kMost, target->ring_bytes() / stage_bytes(p, c)));
}

int ctas_per_sm(const MatmulProblem& p, const MatmulConfig& c, ir::Target target) {
  // Registers of a thread in addition to the accumulator, as in compiled kernels.
  constexpr int kOtherRegisters = 56, kWarpThreads = 32;
  const AccumulatorShape t = accumulator_of(p, c);
  const int warps = t.rows / ir::kWarpRows;
  const int accumulators = p.fp32_promotion ? 2 : 1;
  const int registers = accumulators * t.rows * t.columns + warps * kWarpThreads * kOtherRegisters;
  const int most = t.rows < ir::kWgmmaRows ? 8 : 4;
  const auto ring = c.stages * static_cast<std::int64_t>(stage_bytes(p, c));
  const std::int64_t by_shared = ring > 0 ? target->ring_bytes() / ring : most;
  return static_cast<int>(std::clamp<std::int64_t>(
      std::min<std::int64_t>(by_shared, target->registers_per_sm / registers), 1, most));
}

bool is_persistent(const MatmulProblem& p, const MatmulConfig& c, ir::Target target) {
  if (c.pingpong) return true;
  return c.split != SplitK::cluster &&
         2 * c.stages * static_cast<std::int64_t>(stage_bytes(p, c)) > target->ring_bytes();
}

std::int64_t tiles_of(const MatmulProblem& p, const MatmulConfig& c) {
  return p.batch * ceil_div(p.m, c.bm) * ceil_div(p.n, c.bn);
}

TileOrder order_of(const MatmulProblem& p, const MatmulConfig& c) {
  // Parts that a second kernel adds are the slowest grid dimension, before the rows.
  const int parts = c.split == SplitK::partials ? c.parts : 1;
  const bool is_grouped = !p.is_batched && c.split != SplitK::partials;
  const auto m = static_cast<double>(p.m), n = static_cast<double>(p.n),
             k_bytes = static_cast<double>(p.k * size_bytes(p.operands)) / parts;
  TileOrder t;
  t.matrices = static_cast<double>(p.batch * parts);
  t.rows = static_cast<double>(std::max<std::int64_t>(ceil_div(p.m, c.bm), 1));
  t.columns = static_cast<double>(std::max<std::int64_t>(ceil_div(p.n, c.bn), 1));
  t.group = is_grouped ? c.group_m : 1;
  t.row_bytes = m / t.rows * k_bytes;
  t.column_bytes = p.gates * n / t.columns * k_bytes;
  t.tiles_of_sm = c.pingpong ? 2 : 1;
  t.result_bytes =
      m / t.rows * n / t.columns * size_bytes(p.result) * (1 + p.epilogue_matrices) / parts;
  return t;
}

Work work_of(const MatmulProblem& p, const MatmulConfig& c, ir::Target target) {
  const int bytes = size_bytes(p.operands), result_bytes = size_bytes(p.result);
  const double k_bytes = c.bk * bytes;
  const AccumulatorShape t = accumulator_of(p, c);
  const bool is_divided = c.split == SplitK::cluster || c.split == SplitK::partials;
  const int parts = is_divided ? c.parts : 1;
  const auto m = static_cast<double>(p.m), n = static_cast<double>(p.n),
             k = static_cast<double>(p.k), batch = static_cast<double>(p.batch);
  Work w;
  w.engine = engine_of(p, c, target);
  w.trips = static_cast<double>(ceil_div(ceil_div(p.k, c.bk), parts));
  w.mma_bytes = 2.0 * t.rows * t.columns * k_bytes;
  w.mma_columns = t.columns / p.gates;
  w.smem_bytes = smem_bytes_of(t, p.gates, k_bytes);
  const auto lines = [&](std::int64_t extent, int tile, bool is_k_major, LinePhase phase) {
    return lines_of(extent, tile, c.bk, bytes, is_k_major, phase);
  };
  const Unshared unshared(p, c);
  w.l2_lines =
      unshared.rows * lines(p.m, c.bm, p.a_k_major, p.repacks_a ? LinePhase::whole : p.a_lines) +
      p.gates * unshared.columns *
          lines(p.n, c.bn, p.b_k_major, p.repacks_b ? LinePhase::whole : p.b_lines);
  w.tiles = static_cast<double>(tiles_of(p, c) * parts);
  w.is_streamed = c.split == SplitK::stream;
  const bool persists = w.engine == MmaEngine::wgmma && is_persistent(p, c, target);
  // The loads of an epilogue delay the fill of the ring.
  w.is_persistent = persists && p.epilogue_matrices == 0;
  w.overlaps_epilogue = c.pingpong;
  w.is_multicast = c.multicast != Multicast::none;
  w.cluster = w.is_multicast ? 2 : c.split == SplitK::cluster ? parts : 1;
  w.slots = c.pingpong && c.stages == 0 ? std::min(6, stages_that_fit(p, c, target))
                                        : std::max(c.stages, 1);
  w.ctas_per_sm = c.pingpong || w.is_streamed ? 1 : ctas_per_sm(p, c, target);
  w.transposes = c.swap_ab && c.split != SplitK::partials;
  w.stores_elements = p.n * result_bytes % kWord != 0 && c.split != SplitK::partials && persists;
  w.accumulator_bytes = 4.0 * t.rows * t.columns;
  w.epilogue_rows = std::max(t.rows / ir::kWgmmaRows, 1);
  w.epilogue_bytes = c.split == SplitK::partials
                         ? 4.0 * c.bm * c.bn
                         : c.bm * c.bn * result_bytes / parts * (p.gates + p.epilogue_matrices);
  w.order = order_of(p, c);
  w.scattered_bytes = (w.slots - 1.0) * scattered_bytes_of_stage(p, c);
  w.parts = parts;
  if (is_divided && parts > 1) {
    w.sum = c.split == SplitK::cluster ? PartsSum::in_cluster : PartsSum::by_kernel;
    w.part_bytes = 8 * m * n;
  }
  if (c.operands == OperandPath::direct)
    w.single_elements = (c.bm + c.bn * p.gates) * static_cast<double>(c.bk);
  else if (p.repacks())
    w.repack_bytes =
        2.0 * bytes * batch * ((p.repacks_a ? m * k : 0) + (p.repacks_b ? p.gates * k * n : 0));
  return w;
}

}  // namespace tegula::autotune
