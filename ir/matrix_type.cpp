#include "ir/matrix_type.h"

#include <algorithm>
#include <array>

namespace tegula::ir {
namespace {

struct MatrixTypeRow {
  DType operand;
  bool is_f8;
  MatrixType type;
};
constexpr std::array kRows{
    MatrixTypeRow{DType::bf16, false, {"bf16", 16, DType::f32}},
    MatrixTypeRow{DType::f16, false, {"f16", 16, DType::f32}},
    MatrixTypeRow{DType::f32, false, {"tf32", 32, DType::f32}},
    MatrixTypeRow{DType::f8e4m3, true, {"f8e4m3", 8, DType::f32}},
    MatrixTypeRow{DType::f8e5m2, true, {"f8e5m2", 8, DType::f32}},
    MatrixTypeRow{DType::i8, false, {"i8", 8, DType::i32}},
    MatrixTypeRow{DType::u8, false, {"u8", 8, DType::i32}},
};

const MatrixTypeRow* row_of(DType operand) {
  const auto* found = std::ranges::find(kRows, operand, &MatrixTypeRow::operand);
  return found == kRows.end() ? nullptr : found;
}

}  // namespace

const MatrixType* matrix_type_of(DType operand) {
  const MatrixTypeRow* row = row_of(operand);
  return row ? &row->type : nullptr;
}

const MatrixType* matrix_type(const Kernel& k, const OpData& dot) {
  const DType operand = k.type(dot.operands[0]).dtype();
  const MatrixTypeRow* row = row_of(operand);
  if (!row || row->type.sum != k.type(dot.results[0]).dtype()) return nullptr;
  if (operand == DType::f32 && dot.attrs.s(AttrName::precision) != "tf32") return nullptr;
  return !row->is_f8 || k.info.target->has_f8 ? &row->type : nullptr;
}

}  // namespace tegula::ir
