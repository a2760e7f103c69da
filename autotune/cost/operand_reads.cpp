#include "autotune/cost/operand_reads.h"

#include <algorithm>
#include <cmath>

namespace tegula::autotune {
namespace {

/// Numbers of different operand panels (rows and columns of tiles) that consecutive tiles read.
struct Panels {
  double rows = 0, columns = 0;

  Panels operator+(const Panels& o) const { return {rows + o.rows, columns + o.columns}; }
  Panels operator-(const Panels& o) const { return {rows - o.rows, columns - o.columns}; }
  double bytes(const TileOrder& t) const { return rows * t.row_bytes + columns * t.column_bytes; }
};

/// Returns the index of the part, of `size` tiles each, that contains tile end - 1.
double part_before(double end, double size) { return std::ceil(end / size) - 1; }

/// Returns the panels of tiles [begin, end) of one matrix, ordered in groups of rows, column by
/// column within a group.
Panels panels_of_part(const TileOrder& t, double begin, double end) {
  if (end <= begin) return {};
  const double height = std::min(t.group, t.rows), of_group = height * t.columns;
  const double first = std::floor(begin / of_group), last = part_before(end, of_group);
  const auto height_of = [&](double group) { return std::min(height, t.rows - group * height); };
  begin -= first * of_group, end -= last * of_group;
  const double head = std::floor(begin / height_of(first)), tail = std::ceil(end / height_of(last));
  if (first == last) return {std::min(height_of(first), end - begin), tail - head};
  const double whole = last - first - 1;
  const double rows =
      std::min(height, of_group - begin) + whole * height + std::min(height_of(last), end);
  // The columns of the first group end at the right edge, those of the last one begin at the left.
  return {rows, whole > 0 ? t.columns : std::min(t.columns, t.columns - head + tail)};
}

/// Returns the same for tiles of several matrices, which share no operands.
Panels panels_of(const TileOrder& t, double begin, double end) {
  const double of_matrix = t.rows * t.columns;
  const double first = std::floor(begin / of_matrix), last = part_before(end, of_matrix);
  begin -= first * of_matrix, end -= last * of_matrix;
  if (first == last) return panels_of_part(t, begin, end);
  const double whole = last - first - 1;
  return panels_of_part(t, begin, of_matrix) + Panels{whole * t.rows, whole * t.columns} +
         panels_of_part(t, 0, end);
}

/// Panels of a wave and the bytes of those that the next wave also reads, averaged over samples.
struct MeanWave {
  Panels panels;
  double shared_bytes = 0;

  MeanWave(const TileOrder& t, double tiles, double wave) {
    // Waves begin anywhere in a group and in a matrix; multiples of the golden ratio avoid
    // resonance with either.
    constexpr int kSamples = 4;
    constexpr double kGoldenRatio = 0.6180339887;
    const double begins = std::clamp(tiles - 2 * wave, 0.0, t.rows * t.columns);
    for (int i = 1; i <= kSamples; ++i) {
      const double begin = std::floor(begins * std::fmod(i * kGoldenRatio, 1.0)),
                   middle = std::min(begin + wave, tiles), end = std::min(middle + wave, tiles);
      const Panels here = panels_of(t, begin, middle);
      panels.rows += here.rows / kSamples, panels.columns += here.columns / kSamples;
      if (end <= middle) continue;
      const Panels shared = here + panels_of(t, middle, end) - panels_of(t, begin, end);
      shared_bytes += shared.bytes(t) / kSamples;
    }
  }
};

/// Returns the fraction of the L2's lines that are replaced while `bytes` arrive, assuming random
/// replacement. Lines that all SMs read occupy both halves of the L2.
double replaced_by(double bytes, double l2_bytes) { return -std::expm1(-2 * bytes / l2_bytes); }

/// Returns how often a panel is read again, if the tiles that share it are at different
/// k-iterations.
double reads_again(double sharers, double bytes, double l2_bytes) {
  // Fraction of a tile's time between the first and the last request for the same line.
  constexpr double kSpan = 0.6;
  const double more = sharers - 1;
  return more > 0 ? more * replaced_by(kSpan * bytes / more, l2_bytes) : 0;
}

}  // namespace

OperandReads operand_reads(const TileOrder& t, double wave, double l2_bytes) {
  const double tiles = t.matrices * t.rows * t.columns;
  const double once = t.matrices * Panels{t.rows, t.columns}.bytes(t);
  const double all = once + tiles * t.result_bytes;
  const double full = 1 - l2_bytes / all;  // fraction of the call with a full L2
  if (!(full > 0)) return {once, once};
  wave = std::clamp(std::floor(wave), 1.0, tiles);
  const MeanWave mean(t, tiles, wave);
  const double waves = tiles / wave;
  const double brought = mean.panels.bytes(t) + wave * t.result_bytes;
  double in_step = once;
  if (waves > 1) {
    const double groups = std::min(t.group, t.rows) * t.columns / wave;
    const double with_next = std::max(waves - 1, 1.0) * mean.shared_bytes,
                 later = std::max(waves * mean.panels.bytes(t) - once - with_next, 0.0);
    in_step += full * (with_next * replaced_by(brought, l2_bytes) +
                       later * replaced_by(std::max(groups, 1.0) * brought, l2_bytes));
  }
  const double in_flight = t.tiles_of_sm * brought;
  const auto again = [&](double panels, double panel_bytes) {
    return panels * panel_bytes * reads_again(wave / panels, in_flight, l2_bytes);
  };
  const double extra =
      again(mean.panels.rows, t.row_bytes) + again(mean.panels.columns, t.column_bytes);
  // The first wave begins in step; later waves gradually fall out of step.
  constexpr double kWavesInStep = 8;
  const double drifted = -std::expm1(-(waves - 1) / kWavesInStep);
  return {in_step, in_step + full * waves * drifted * extra};
}

}  // namespace tegula::autotune
