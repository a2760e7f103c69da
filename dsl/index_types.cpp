#include "dsl/index_types.h"

#include <algorithm>
#include <array>
#include <vector>

namespace tegula::dsl {
namespace {

using ir::Opcode;

/// Returns true for a cast to the type of its operand; only restated() makes such casts.
bool is_restatement(const ir::Kernel& k, ir::OpId op) {
  const ir::OpData& d = k[op];
  return d.opcode == Opcode::Cast && k.type(d.operands[0]) == k.type(d.results[0]);
}

bool is_number(ir::Type t) {
  return !t.is_view() && !t.is_pointer() && is_integer(t.dtype()) && !is_bool(t.dtype());
}

bool is_moved(Opcode o) {
  constexpr Opcode kMoves[] = {Opcode::Splat,      Opcode::Broadcast,
                               Opcode::ExpandDims, Opcode::Reshape,
                               Opcode::Permute,    Opcode::Reduce,
                               Opcode::Scan,       Opcode::FillAbsent,
                               Opcode::Crop,       Opcode::ClusterReduceScatter,
                               Opcode::TileSlice,  Opcode::Gather};
  return std::ranges::find(kMoves, o) != std::end(kMoves);
}

}  // namespace

IndexTypes::Kind IndexTypes::kind(ir::Value v) {
  if (const auto at = kinds_.find(v); at != kinds_.end()) return at->second;
  const ir::OpId def = k_[v].def;
  const Kind found = def && is_number(k_.type(v)) ? kind_of_result(k_[def], v) : Kind::Number;
  kinds_[v] = found;
  return found;
}

IndexTypes::Kind IndexTypes::kind_of_result(const ir::OpData& d, ir::Value v) {
  const std::span<const ir::Value> operands(d.operands.data(), d.operands.size());
  if (d.is(Opcode::ViewDim, Opcode::ViewStride)) return Kind::Index;
  if (d.is(Opcode::Cast, Opcode::Bitcast)) return Kind::Number;
  if (d.opcode == Opcode::Select) return together(operands.subspan(1));
  if (is_moved(d.opcode)) return together(operands.first(1));
  if (d.opcode == Opcode::TileConcat) return together(operands);
  if (d.opcode == Opcode::Scatter) return together(std::array{operands[0], operands[2]});
  if (d.opcode == Opcode::ArgReduce && v == d.results[0]) return together(operands);
  return ir::info(d.opcode).family == ir::Family::Elementwise ? together(operands) : Kind::Number;
}

/// Returns the kind of a result: an index and an i32 give an index, an index and an i64 an i64.
IndexTypes::Kind IndexTypes::together(std::span<const ir::Value> operands) {
  bool is_adapted = true, is_index = false, is_wide = false;
  for (ir::Value v : operands) {
    const Kind k = kind(v);
    is_adapted &= k == Kind::Adapted;
    is_index |= k == Kind::Index;
    is_wide |= k == Kind::Number && size_bits(k_.type(v).dtype()) == 64;
  }
  if (is_index && !is_wide) return Kind::Index;
  return is_adapted ? Kind::Adapted : Kind::Number;
}

ir::Value IndexTypes::restated(ir::Builder& b, ir::Value v, Kind wanted) {
  if (kind(v) == wanted) return v;
  const ir::Type type = k_.type(v);
  const ir::Value out = b.op(Opcode::Cast, {v}, type);
  kinds_[out] = wanted;
  return out;
}

void IndexTypes::set_converted(ir::Value v, ir::Value result) {
  const ir::Type to = k_.type(result);
  const bool keeps = is_number(to) && size_bits(to.dtype()) < 64 && is_index(v);
  kinds_[result] = keeps ? Kind::Index : Kind::Adapted;
}

std::string IndexTypes::type_text(ir::Value v) {
  const ir::Type type = k_.type(v);
  std::string text = type.str();
  if (!is_index(v)) return text;
  const std::string_view number = name(type.dtype());
  return text.replace(text.rfind(number), number.size(), "index");
}

ir::Value stated(const ir::Kernel& k, ir::Value v) {
  for (ir::OpId def = k[v].def; def && is_restatement(k, def); def = k[v].def)
    v = k[def].operands[0];
  return v;
}

void remove_restatements(ir::Kernel& k) {
  std::vector<ir::OpId> found;
  for (const ir::RegionId region : {k.body(), k.launch()})
    ir::walk(k, region, [&](ir::OpId op) {
      for (ir::Value& v : k[op].operands) v = stated(k, v);
      if (is_restatement(k, op)) found.push_back(op);
    });
  for (ir::OpId op : found) k.erase(op);
}

}  // namespace tegula::dsl
