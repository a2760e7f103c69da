#pragma once
// Scale policies of the experts' GEMMs: what their accumulators stand for. A policy is a struct of
// kernel parameters; its functions are those of the GEMMs that take it.
#include <optional>

#include "tegula/tegula.h"

namespace tegula::experts {

/// Operands are the values themselves.
struct Unscaled {
  /// Whether activations are stored in 8 bits.
  static bool stores_8_bits() { return false; }
  static Tile gate_of(const Tile& acc, const Index&, const Index&, const Index&) { return acc; }
  static Tile up_of(const Tile& acc, const Index&, const Index&, const Index&) { return acc; }
  static Tile down_of(const Tile& acc, const Index&, const Index&, const Index&) { return acc; }
  static Tile stored(const Tile& activation) { return activation; }
};

/// The accumulators of rows and an expert's outputs times the scales of both.
inline Tile scaled_by(const Tile& acc, const Tile& rows, const Tile& outputs) {
  return acc * expand(rows, 1) * expand(outputs, 0);
}

/// Up projections of operands with a scale for each row of X [rows] and each output of the matrices
/// [experts, outputs]. Without an up matrix its scales are the gate's. `hidden` [1] is the scale of
/// activations that are stored in 8 bits.
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

/// Down projections of operands with a scale for each row of activations and each output.
struct DownScales {
  In<f32, 1> rows;
  In<f32, 2> outputs;

  Tile down_of(const Tile& acc, const Index& expert, const Index& m, const Index& n) const {
    return scaled_by(acc, rows(m), outputs(expert, n));
  }
};

}  // namespace tegula::experts
