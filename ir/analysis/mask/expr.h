#pragma once
// The expression of an attention mask, (b, h, q, kv) -> i1, extracted from the IR that it was
// traced into: a small graph that the mask analyses evaluate over blocks. Shapes are removed: a
// tile becomes its value at one (q, kv), a scalar becomes a launch parameter.
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "ir/kernel.h"

namespace tegula::ir {

/// Index of a node. Operands have smaller indices than their users.
using MaskNodeId = std::uint32_t;

/// Inputs that a node depends on, as a bit set.
enum MaskDependence : std::uint8_t {
  kOnBatch = 1,
  kOnHead = 2,
  kOnQuery = 4,
  kOnKey = 8,
  kOnParam = 16,
  kOnTable = 32,
  kOnUnknown = 64,  ///< on something that no analysis supports
};

/// Comparisons as the analyses represent them: `>` and `>=` are swapped on import.
enum class MaskPred : std::uint8_t { Lt, Le, Eq, Ne };

struct MaskNode {
  enum class Kind : std::uint8_t { Batch, Head, Query, Key, Param, Const, Op, Table, Unknown };
  Kind kind = Kind::Unknown;
  Opcode opcode{};  ///< opcode of an Op
  MaskPred pred{};  ///< predicate of a Cmp
  DType dtype = DType::i1;
  std::uint8_t depends = 0;
  std::uint8_t operands = 0;
  std::array<MaskNodeId, 3> in{};
  std::int64_t value = 0;  ///< number of a Const; slot of a Param or a Table

  bool is_op(Opcode o) const { return kind == Kind::Op && opcode == o; }
  friend bool operator==(const MaskNode&, const MaskNode&) = default;
};

/// Values that the mask lambda was called with. An absent value does not occur in the mask.
struct MaskArgs {
  Value batch, head, query, key;
};

struct MaskExpr {
  std::vector<MaskNode> nodes;  ///< in evaluation order, without duplicates
  MaskNodeId root = 0;
  std::vector<Value> params;  ///< IR scalar of each Param slot
  std::vector<Value> tables;  ///< one-dimensional view of each Table slot

  const MaskNode& operator[](MaskNodeId id) const { return nodes[id]; }
  bool depends(MaskNodeId id, unsigned on) const { return (nodes[id].depends & on) != 0; }
  /// Returns the equal node if there is one; otherwise adds `node`.
  MaskNodeId add(MaskNode node);
  /// Returns text such as "(q >= kv) & ((q - kv) < p0)" for messages.
  std::string str() const { return str(root); }
  std::string str(MaskNodeId id, int depth = 10) const;
};

/// Imports the definition of `root`, an i1 scalar or tile. Never fails: an unsupported value
/// becomes Unknown if it varies with q or kv, and a Param if it is one scalar for the whole block.
MaskExpr import_mask(const Kernel& k, Value root, const MaskArgs& roles);

}  // namespace tegula::ir
