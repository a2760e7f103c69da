#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <source_location>
#include <span>
#include <vector>

#include "tegula/tensor.h"
#include "tegula/value.h"

/// Derivatives of what a kernel has computed: rules and limits in docs/language/derivatives.md.
namespace tegula {

/// Returns `value` and states that its derivative with respect to x is `slope`: derivatives use the
/// slope and ignore how the value was computed. Calls may be chained, one for each variable that
/// the value depends on; with respect to all others the derivative is 0. All three are floats; x
/// and the slope broadcast to the shape of the value. Costs nothing where no derivative is taken.
Tile with_gradient(const Arg& value, const Arg& x, const Arg& slope);

/// Returns dy times the derivative of y with respect to x, as f32 of the shape of x (f64 if dy is
/// f64): where x was broadcast, the sum over the elements of y. Zeros if y does not depend on x.
/// x must be a value from which y was computed, as it was then. Records operations at the current
/// place; y must be computed there or in an enclosing body. Throws CompileError T1022 for an
/// operation without derivative between x and y.
Tile derivative(const Tile& y, const Tile& x, const Tile& dy,
                std::source_location at = std::source_location::current());

/// A tensor or Scalar that a lambda has captured; the other member is null.
struct CaptureSource {
  /// The variable; if that is gone before the launch, a copy, which moves when the kernel captures
  /// another tensor.
  const Tensor* tensor = nullptr;
  std::shared_ptr<detail::ScalarCell> scalar;
};

/// The adjoint of a captured Scalar, or of the elements that one subscript of a captured tensor has
/// read.
struct CaptureAdjoint {
  CaptureSource source;
  /// The element's index along each dimension of the tensor: the first one of a box, or a tile with
  /// the index of each element.
  std::vector<Tile> offsets;
  std::vector<int> axes;  ///< dimension of the tensor along which each one of a box runs
  Tile adjoint;
};

/// The result of adjoints(). No adjoint means 0: y does not depend on the value.
struct Adjoints {
  std::vector<std::optional<Tile>> of;  ///< one for each value of `wrt`
  std::vector<CaptureAdjoint> captured;
};

/// Returns what derivative() returns, for several values at once and for the captures that `wants`
/// accepts. The tile `dy` itself is returned where the derivative is 1.
Adjoints adjoints(const Tile& y, const Tile& dy, std::span<const Tile> wrt,
                  const std::function<bool(const CaptureSource&)>& wants = {},
                  std::source_location at = std::source_location::current());

}  // namespace tegula
