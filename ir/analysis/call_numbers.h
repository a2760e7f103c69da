#pragma once
// Scalars of a kernel that follow from the arguments of a call and from the number of a program.
#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "ir/eval/eval.h"
#include "ir/kernel.h"

namespace tegula::ir {

/// The numbers of one program of a call. Does not modify the kernel.
class CallNumbers {
 public:
  /// `args` are those of the kernel's parameters and must outlive this object.
  CallNumbers(const Kernel& k, std::span<const EvalArg> args, std::int64_t program);

  /// Returns the value of an integer scalar; nothing if it depends on memory. Indices of loops have
  /// their first value.
  std::optional<std::int64_t> of(Value v);
  /// Returns the argument of a view; null for other views.
  const TensorArg* tensor(Value view) const;
  /// Returns the trips of a loop; nothing if they depend on memory.
  std::optional<std::int64_t> trips(const OpData& loop);
  /// Returns the number of programs that the call launches; unknown extents count as 1.
  std::int64_t programs();

 private:
  std::optional<Cell> cell_of(Value v);
  std::optional<Cell> compute(Value v);
  std::optional<Cell> extent_of(Value view, std::size_t axis);
  const EvalArg* argument(Value v) const;

  const Kernel& k_;
  std::span<const EvalArg> args_;
  std::int64_t program_;
  std::unordered_map<Value, std::int64_t> position_;
  std::unordered_map<Value, std::optional<Cell>> known_;
};

/// The dimensions of the launch grid, as sets of bits, and the values that depend on them.
class GridDims {
 public:
  using Set = std::uint32_t;
  struct Dim {
    Value tile;  ///< index of the program along it
    double count = 1;
  };

  GridDims(const Kernel& k, CallNumbers& numbers);

  std::span<const Dim> dims() const { return dims_; }
  Set all() const { return (Set{1} << dims_.size()) - 1; }
  /// Returns the dimensions that a value depends on, except through the ends of loops.
  Set of(Value v);
  /// Returns the number of programs along these dimensions.
  double count(Set set) const;

 private:
  const Kernel& k_;
  std::vector<Dim> dims_;
  std::unordered_map<Value, Set> known_;
};

}  // namespace tegula::ir
