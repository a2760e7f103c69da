#pragma once
#include <array>
#include <cstdint>
#include <string_view>

#include "tegula/device_profile.h"
#include "tegula/dtype.h"

/// How kernels of whole rows hold them: norms, softmaxes, transforms, quantisation by row.
namespace tegula {

/// Kernels that have rows.
enum class RowKernel : std::uint8_t { norm, softmax, softmax_backward, hadamard, quantise };
constexpr auto enumerator_names(RowKernel) {
  return std::array<std::string_view, 5>{"norm", "softmax", "softmax_backward", "hadamard",
                                         "quantise"};
}

enum class RowMethod : std::uint8_t {
  held,      ///< a CTA holds its rows in registers
  cluster,   ///< the CTAs of a cluster hold a row together
  two_pass,  ///< a row is read twice, the second time mostly from the L2
};
constexpr auto enumerator_names(RowMethod) {
  return std::array<std::string_view, 3>{"held", "cluster", "two_pass"};
}

struct RowProblem {
  std::int64_t rows = 0, columns = 0;
  RowKernel kernel = RowKernel::norm;
  DType type = DType::bf16;
  int tensors = 2;  ///< tensors of rows x columns that are read and written

  template <class Self, class Visit>
  static void each_field(Self& p, const Visit& visit) {
    visit("rows", p.rows);
    visit("columns", p.columns);
    visit("kernel", p.kernel);
    visit("type", p.type);
    visit("tensors", p.tensors);
  }
  friend bool operator==(const RowProblem&, const RowProblem&) = default;
};

struct RowConfig {
  RowMethod method = RowMethod::held;
  int tile_rows = 1;       ///< rows of a CTA that holds them
  int ctas = 1;            ///< CTAs of a cluster
  int columns_of_cta = 0;  ///< in a cluster

  template <class Self, class Visit>
  static void each_field(Self& c, const Visit& visit) {
    visit("method", c.method);
    visit("tile_rows", c.tile_rows);
    visit("ctas", c.ctas);
    visit("columns_of_cta", c.columns_of_cta);
  }
  friend bool operator==(const RowConfig&, const RowConfig&) = default;
};

/// Rows of a tile: short rows share a program, so that its threads have 16-byte accesses enough,
/// and a warp holds a whole row, which it reduces without a barrier.
int rows_per_tile(std::int64_t columns);

/// The configuration that the model takes.
RowConfig choose_rows(const RowProblem& problem, const DeviceProfile& gpu);
/// The decision of a call on a device: a winner of the tuner for this problem, or a near one, else
/// the model's.
RowConfig choose_rows(const RowProblem& problem, Device device);

}  // namespace tegula
