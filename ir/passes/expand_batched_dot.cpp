// Expands a dot of three dimensions to one dot for each index along the first dimension.
//
//   r = dot a, b, acc : tile<Bxmxn>   ->   for each i of B:
//                                            a_i = reshape (tile_slice a [i, 0, 0])
//                                            r_i = dot a_i, b_i, acc_i
//                                          r = tile_concat (expand_dims r_i) ..
//
// An operand that is loaded only for this dot is loaded as B boxes instead, so that each product is
// pipelined like a separate dot. Absent elements have become zeros and masks before this pass, so
// that the parts, which lack the first dimension, need no bounds along it.
#include <vector>

#include "ir/access.h"
#include "ir/builder.h"
#include "ir/pipeline.h"
#include "ir/uses.h"

namespace tegula::ir {
namespace {

class BatchedDots {
 public:
  explicit BatchedDots(Kernel& k) : k_(k), uses_(k) {}

  bool run() {
    const std::vector<OpId> dots = ops_where(k_, k_.body(), [&](OpId op) {
      return k_[op].opcode == Opcode::Dot && k_.type(k_[op].results[0]).rank() == 3;
    });
    for (OpId dot : dots) expand(dot);
    return !dots.empty();
  }

 private:
  void expand(OpId dot) {
    const std::vector<Value> operands(k_[dot].operands.begin(), k_[dot].operands.end());
    const Value result = k_[dot].results[0];
    std::vector<std::vector<Value>> matrices;
    for (Value v : operands) matrices.push_back(of_batches(dot, v));
    Builder b(k_, dot);
    std::vector<Value> products;
    for (std::size_t i = 0; i < matrices[0].size(); ++i) {
      const std::array each{matrices[0][i], matrices[1][i], matrices[2][i]};
      const OpId one = b.create(Opcode::Dot, each, AttrList(k_[dot].attrs));
      products.push_back(b.op(Opcode::ExpandDims, {k_[one].results[0]}, {{AttrName::axis, 0}}));
    }
    const Value all = products.size() == 1
                          ? products[0]
                          : b.op(Opcode::TileConcat, products, {{AttrName::axis, 0}});
    k_.replace_all_uses(result, all);
    k_.erase(dot);
    for (Value v : operands)
      if (is_own_load(v)) k_.erase(k_[v].def);
  }

  /// Returns true if the dot is the only user of the load and no index tile selects its rows.
  bool is_own_load(Value v) const {
    const OpId def = k_[v].def;
    return def && k_[def].opcode == Opcode::LoadView && uses_.count(v) == 1 &&
           access_of(k_, k_[def]).gathered_dim() < 0;
  }

  std::vector<Value> of_batches(OpId dot, Value v) {
    const Type type = k_.type(v);
    const Type matrix = Type::tile(type.elem(), type.shape().subspan(1));
    std::vector<Value> parts;
    for (std::int64_t i = 0; i < type.shape()[0]; ++i)
      parts.push_back(is_own_load(v) ? loaded(k_[v].def, matrix, i) : sliced(dot, v, matrix, i));
    return parts;
  }

  Value sliced(OpId dot, Value v, Type matrix, std::int64_t i) {
    const Type type = k_.type(v);
    Builder b(k_, dot);
    if (const OpId def = k_[v].def; def && k_[def].opcode == Opcode::Const) {
      AttrList attrs = k_[def].attrs;
      return k_[b.create(Opcode::Const, std::span<const Value>(), std::span(&matrix, 1), attrs)]
          .results[0];
    }
    Ints shape(type.shape().begin(), type.shape().end());
    shape[0] = 1;
    const Value slice = b.op(Opcode::TileSlice, {v}, Type::tile(type.elem(), shape),
                             {{AttrName::offsets, Ints{i, 0, 0}}});
    return b.op(Opcode::Reshape, {slice}, matrix);
  }

  Value loaded(OpId load, Type matrix, std::int64_t i) {
    Builder b(k_, load);
    BoxAccess a = access_of(k_, k_[load]);
    Value& offset = a.along_dim(0).offset;
    if (i != 0) offset = b.add(offset, b.constant(k_.type(offset), i));
    // The offset's divisibility matters along a dimension of stride 1.
    const auto view_dim = static_cast<std::size_t>(a.along[0]);
    if (i != 0 && k_.type(a.view).view_facts().strides[view_dim] == 1) a.divisor = 1;
    a.along.erase(a.along.begin());
    return k_[create_access(b, Opcode::LoadView, a, k_[load].attrs, matrix)].results[0];
  }

  Kernel& k_;
  Uses uses_;
};

}  // namespace

bool expand_batched_dot(Kernel& kernel, PassContext&) { return BatchedDots(kernel).run(); }

}  // namespace tegula::ir
