#pragma once
// Scale policies of the experts' GEMMs, which convert accumulators to values. A policy is a struct
// of kernel parameters, with the functions that the GEMMs call.
#include <optional>

#include "tegula/tegula.h"

namespace tegula::kernels::experts {

/// Operands without scales.
struct Unscaled {
  /// Returns true if activations are stored in 8 bits.
  static bool stores_8_bits() { return false; }
  static Tile gate_of(const Tile& acc, const Index&, const Index&, const Index&) { return acc; }
  static Tile up_of(const Tile& acc, const Index&, const Index&, const Index&) { return acc; }
  static Tile down_of(const Tile& acc, const Index&, const Index&, const Index&) { return acc; }
  static Tile stored(const Tile& activation) { return activation; }
};

/// Returns the accumulators multiplied by the scales of rows and of an expert's outputs.
inline Tile scaled_by(const Tile& acc, const Tile& rows, const Tile& outputs) {
  return acc * expand(rows, 1) * expand(outputs, 0);
}

/// Up projections with a scale for each row of X [rows] and for each output of the matrices
/// [experts, outputs]. Without an up matrix, its scales are those of the gate. `hidden` [1] is the
/// scale of activations that are stored in 8 bits.
struct UpScales {
  In<f32, 1> rows;
  In<f32, 2> gate, up;
  std::optional<In<f32, 1>> hidden;

  Tile gate_of(const Tile& acc, const Index& expert, const Index& m, const Index& n) const {
    return scaled_by(acc, rows(m), gate(expert, n));
  }
  Tile up_of(const Tile& acc, const Index& expert, const Index& m, const Index& n) const {
    return scaled_by(acc, rows(m), up(expert, n));
  }
  bool stores_8_bits() const { return hidden.has_value(); }
  Tile stored(const Tile& activation) const {
    return hidden ? activation * (1.0f / (*hidden)(0)) : activation;
  }
};

/// Down projections with a scale for each row of activations and for each output.
struct DownScales {
  In<f32, 1> rows;
  In<f32, 2> outputs;

  Tile down_of(const Tile& acc, const Index& expert, const Index& m, const Index& n) const {
    return scaled_by(acc, rows(m), outputs(expert, n));
  }
};

}  // namespace tegula::kernels::experts
