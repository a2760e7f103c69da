#pragma once
// The expression of an attention mask, (b, h, q, kv) -> i1, taken out of the IR it was traced into:
// a small graph that the mask analyses evaluate over blocks. Shapes are gone: what was a tile is
// the value at one (q, kv), what was a scalar is a parameter of the launch.
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "ir/kernel.h"

namespace tegula::ir {

/// Index of a node; operands have smaller ones than their user.
using MaskNodeId = std::uint32_t;

/// Inputs that a node depends on, as a bit set.
enum MaskDependence : std::uint8_t {
  kOnBatch = 1,
  kOnHead = 2,
  kOnQuery = 4,
  kOnKey = 8,
  kOnParam = 16,
  kOnTable = 32,
  kOnUnknown = 64,  ///< on something that no analysis can follow
};

/// Comparisons as the analyses know them: `>` and `>=` are turned around when they are imported.
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

/// Values that the lambda was called with. A missing one does not occur in the mask.
struct MaskArgs {
  Value batch, head, query, key;
};

struct MaskExpr {
  std::vector<MaskNode> nodes;  ///< in order of evaluation, each once
  MaskNodeId root = 0;
  std::vector<Value> params;  ///< scalar of the IR behind each Param slot
  std::vector<Value> tables;  ///< one-dimensional view behind each Table slot

  const MaskNode& operator[](MaskNodeId id) const { return nodes[id]; }
  bool depends(MaskNodeId id, unsigned on) const { return (nodes[id].depends & on) != 0; }
  /// Adds a node, or finds the equal one.
  MaskNodeId add(MaskNode node);
  /// "(q >= kv) & ((q - kv) < p0)", for messages.
  std::string str() const { return str(root); }
  std::string str(MaskNodeId id, int depth = 10) const;
};

/// Follows the definition of `root`, an i1 scalar or tile. What it cannot follow becomes Unknown
/// where it varies with q or kv, and a Param where it is one scalar for the whole block; so this
/// never fails.
MaskExpr import_mask(const Kernel& k, Value root, const MaskArgs& roles);

}  // namespace tegula::ir
