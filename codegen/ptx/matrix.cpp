// mma.sync and wgmma.
#include <fmt/format.h>

#include "codegen/ptx/instructions.h"

namespace tegula::codegen::ptx {
namespace {

using ir::AttrName;

int element_bits(std::string_view attr) {
  if (attr == "tf32") return 32;
  const auto d = dtype_from_name(attr);
  return d ? size_bits(*d) : 0;
}

Reg accumulator_reg(DType d) { return d == DType::f32 ? Reg::f32 : Reg::b32; }

/// scale-d of k step `step`: only the first step may ignore the accumulator.
std::string_view scale_of(int step, const WgmmaForm& form) {
  if (step > 0) return "1";
  if (form.fresh || form.scale_d == false) return "none";
  return form.scale_d ? "1" : "scale";
}

/// Immediates after scale-d: signs of A and B, then transposition if the element type supports it.
/// Integers have no immediates.
std::string immediates(const ir::AttrList& attrs, const WgmmaForm& form) {
  if (form.accumulator == DType::i32) return "";
  if (element_bits(attrs.s(AttrName::a_type)) != 16) return ", 1, 1";
  const std::int64_t ta = attrs.i(AttrName::trans_a), tb = attrs.i(AttrName::trans_b);
  return form.a_in_registers ? fmt::format(", 1, 1, {}", tb)
                             : fmt::format(", 1, 1, {}, {}", ta, tb);
}

}  // namespace

MmaRegisters mma_registers(const ir::AttrList& attrs) {
  const auto shape = attrs.ints(AttrName::shape);
  const auto registers = [](std::int64_t elements, int bits) {
    return static_cast<int>(elements * bits / 1024);
  };
  return {registers(shape[0] * shape[2], element_bits(attrs.s(AttrName::a_type))),
          registers(shape[1] * shape[2], element_bits(attrs.s(AttrName::b_type))),
          static_cast<int>(shape[0] * shape[1] / 32)};
}

Asm mma(const ir::AttrList& attrs, DType accumulator) {
  const auto shape = attrs.ints(AttrName::shape);
  const MmaRegisters n = mma_registers(attrs);
  const std::string_view c_type = type_suffix(accumulator);
  Asm out;
  out.effects = false;
  out.convergent = true;
  const Reg reg = accumulator_reg(accumulator);
  const int d = out.add(reg, Role::Out, n.c), a = out.add(Reg::b32, Role::In, n.a),
            b = out.add(Reg::b32, Role::In, n.b), c = out.add(reg, Role::In, n.c);
  out.text = fmt::format("mma.sync.aligned.m{}n{}k{}.row.col.{}.{}.{}.{} {}, {}, {}, {};", shape[0],
                         shape[1], shape[2], c_type, matrix_suffix(attrs.s(AttrName::a_type)),
                         matrix_suffix(attrs.s(AttrName::b_type)), c_type, braces(d, n.c),
                         braces(a, n.a), braces(b, n.b), braces(c, n.c));
  return out;
}

Asm wgmma(const ir::AttrList& attrs, const WgmmaForm& form) {
  const auto shape = attrs.ints(AttrName::shape);
  Asm out;
  out.memory = out.convergent = true;
  const int acc = out.add(accumulator_reg(form.accumulator), form.fresh ? Role::Out : Role::InOut,
                          form.accumulators);
  const int a = form.a_in_registers ? out.add(Reg::b32, Role::In, 4 * form.steps)
                                    : out.add(Reg::b64, Role::In, form.row_tiles * form.steps);
  const int b = out.add(Reg::b64, Role::In, form.steps);
  const bool constant = form.fresh || form.scale_d;
  if (!constant) out.add(Reg::pred, Role::In);
  const std::string scale = constant ? "" : fmt::format("#{}", out.operands.size() - 1);

  const std::string head = fmt::format(
      "wgmma.mma_async.sync.aligned.m{}n{}k{}.{}.{}.{}", shape[0], shape[1], shape[2],
      type_suffix(form.accumulator == DType::i32 ? DType::i32 : form.accumulator),
      matrix_suffix(attrs.s(AttrName::a_type)), matrix_suffix(attrs.s(AttrName::b_type)));
  const int registers = form.accumulators / form.row_tiles;
  const std::string tail = immediates(attrs, form);
  out.text = "{\n";
  if (scale_of(0, form) == "none") out.text += ".reg .pred none;\nsetp.ne.b32 none, 0, 0;\n";
  for (int s = 0; s < form.steps; ++s) {
    const std::string_view chosen = scale_of(s, form);
    for (int m = 0; m < form.row_tiles; ++m)
      out.text += fmt::format(
          "{} {}, {}, #{}, {}{};\n", head, braces(acc + m * registers, registers),
          form.a_in_registers ? braces(a + 4 * s, 4) : fmt::format("#{}", a + m * form.steps + s),
          b + s, chosen == "scale" ? scale : std::string(chosen), tail);
  }
  out.text += "}";
  return out;
}

std::vector<std::int64_t> steps_of_rows(const ir::AttrList& attrs) {
  const auto steps = attrs.ints(AttrName::step_a), rows = attrs.ints(AttrName::rows_a);
  if (rows.empty()) return {steps.begin(), steps.end()};
  std::vector<std::int64_t> all;
  for (std::int64_t row : rows)
    for (std::int64_t step : steps) all.push_back(row + step);
  return all;
}

std::uint64_t smem_desc_bits(const ir::AttrList& attrs) {
  const auto field = [&](AttrName name, int shift) {
    return static_cast<std::uint64_t>(attrs.i(name) >> 4) << shift;
  };
  // Bits 62-63 encode the swizzle: none, 128, 64, 32 bytes.
  const std::int64_t bytes = attrs.i(AttrName::swizzle);
  const std::uint64_t swizzle = bytes == 128 ? 1 : bytes == 64 ? 2 : bytes == 32 ? 3 : 0;
  return field(AttrName::lbo, 16) | field(AttrName::sbo, 32) | swizzle << 62;
}

Asm wgmma_fence(const std::vector<Reg>& through) {
  Asm out;
  out.memory = out.convergent = true;
  for (Reg r : through) out.add(r, Role::InOut);
  out.text = "wgmma.fence.sync.aligned;";
  return out;
}

Asm wgmma_wait(std::int64_t count, const std::vector<Reg>& through, const std::vector<Reg>& kept) {
  Asm out;
  out.memory = out.convergent = true;
  for (Reg r : through) out.add(r, Role::InOut);
  for (Reg r : kept) out.add(r, Role::In);
  out.text = fmt::format("wgmma.wait_group.sync.aligned {};", count);
  return out;
}

}  // namespace tegula::codegen::ptx
