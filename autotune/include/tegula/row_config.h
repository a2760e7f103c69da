#pragma once
#include <array>
#include <cstdint>
#include <string_view>

#include "tegula/device_profile.h"
#include "tegula/dtype.h"

/// Configurations of kernels over whole rows: norms, softmax, Hadamard transforms, quantisation.
namespace tegula {

/// Kernels over whole rows.
enum class RowKernel : std::uint8_t { norm, softmax, softmax_backward, hadamard, quantise };
constexpr auto enumerator_names(RowKernel) {
  return std::array<std::string_view, 5>{"norm", "softmax", "softmax_backward", "hadamard",
                                         "quantise"};
}

enum class RowMethod : std::uint8_t {
  held,      ///< a CTA keeps its rows in registers
  cluster,   ///< the CTAs of a cluster keep a row together
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
  int tile_rows = 1;       ///< rows per CTA with `held`
  int ctas = 1;            ///< CTAs of a cluster
  int columns_of_cta = 0;  ///< columns per CTA of a cluster

  template <class Self, class Visit>
  static void each_field(Self& c, const Visit& visit) {
    visit("method", c.method);
    visit("tile_rows", c.tile_rows);
    visit("ctas", c.ctas);
    visit("columns_of_cta", c.columns_of_cta);
  }
  friend bool operator==(const RowConfig&, const RowConfig&) = default;
};

/// Returns the rows of a tile. Short rows share a program, so that its threads have enough 16-byte
/// accesses; a warp holds a whole row and reduces it without a barrier.
int rows_per_tile(std::int64_t columns);

/// Returns the configuration that the model chooses.
RowConfig choose_rows(const RowProblem& problem, const DeviceProfile& gpu);
/// Returns the decision of a call on a device: a tuned winner for this problem or a near one, else
/// the model's choice.
RowConfig choose_rows(const RowProblem& problem, Device device);

}  // namespace tegula
