// ldmatrix, stmatrix, mma.sync and matrix descriptors.
#include <fmt/format.h>
#include <cstring>

#include "codegen/sim/cta.h"
#include "codegen/sim/matrix.h"
#include "tegula/error.h"

namespace tegula::sim {
namespace {

constexpr std::uint32_t kRowBytes = 16;  // row of an 8x8 matrix of 16-bit elements

/// Position of an element that lane `lane` holds of a matrix; each lane holds two elements.
struct MatrixElement {
  int row, column;
};
MatrixElement element_at(int lane, int half, bool transposed) {
  const int a = lane >> 2, b = 2 * (lane & 3) + half;
  return transposed ? MatrixElement{b, a} : MatrixElement{a, b};
}

/// Row addresses of matrix `m` of address register `a`; 0 if the row cannot be accessed.
std::array<std::uint32_t, 8> row_addresses(Warp& w, const Instr& i, std::uint32_t a, int m) {
  std::array<std::uint32_t, 8> rows{};
  std::array<std::uint32_t, 8> used{};
  std::size_t n = 0;
  for (int r = 0; r < 8; ++r) {
    const int lane = 8 * m + r;
    const auto address = static_cast<std::uint32_t>(w.cell(i.in[0], a, lane).i);
    if (!w.cta.shared_access(w, i, address, kRowBytes, lane)) continue;
    rows[static_cast<std::size_t>(r)] = used[n++] = address;
  }
  count_wavefronts(w, i, std::span(used.data(), n), kRowBytes);
  return rows;
}

std::string_view element_type(const Instr& i, AttrName name) { return i.op->attrs.s(name, "bf16"); }

}  // namespace

Step sim_LdMatrix(Warp& w, const Instr& i) {
  w.cta.must_be_defined(w, i, i.in[0], "the row address");
  const int num = static_cast<int>(i.op->attrs.i(AttrName::num, 4));
  const bool transposed = i.op->attrs.i(AttrName::trans) != 0;
  SharedMemory& shared = w.cta.shared;
  const Slot out = i.out[0];
  std::vector<PoisonedHalves> poison(w.info(out).regs);
  for (std::uint32_t a = 0; a < w.info(i.in[0]).regs; ++a) {
    for (int m = 0; m < num; ++m) {
      const std::uint32_t reg = a * static_cast<std::uint32_t>(num) + static_cast<std::uint32_t>(m);
      const auto rows = row_addresses(w, i, a, m);
      for (int r = 0; r < 8; ++r)
        if (rows[static_cast<std::size_t>(r)])
          w.cta.generic_read(w, i, rows[static_cast<std::size_t>(r)], kRowBytes, 8 * m + r);
      for (int lane = 0; lane < kLanes; ++lane) {
        std::uint32_t bits = 0;
        for (std::size_t h = 0; h < 2; ++h) {
          const MatrixElement p = element_at(lane, static_cast<int>(h), transposed);
          const std::uint32_t row = rows[static_cast<std::size_t>(p.row)];
          const std::uint32_t element_address = row + static_cast<std::uint32_t>(2 * p.column);
          if (!row || !shared.all_valid(element_address, 2)) {
            poison[reg][h] |= LaneMask{1} << lane;
            continue;
          }
          std::uint16_t element;
          std::memcpy(&element, shared.at(element_address), 2);
          bits |= static_cast<std::uint32_t>(element) << (16 * h);
        }
        w.cell(out, reg, lane).i = static_cast<std::int32_t>(bits);
      }
    }
  }
  w.wrote_halves(out, std::move(poison), i.id);
  return Step::Next;
}

Step sim_StMatrix(Warp& w, const Instr& i) {
  w.cta.must_be_defined(w, i, i.in[0], "the row address");
  const int num = static_cast<int>(i.op->attrs.i(AttrName::num, 4));
  const bool transposed = i.op->attrs.i(AttrName::trans) != 0;
  const Slot value = i.in[1];
  for (std::uint32_t a = 0; a < w.info(i.in[0]).regs; ++a) {
    for (int m = 0; m < num; ++m) {
      const std::uint32_t reg = a * static_cast<std::uint32_t>(num) + static_cast<std::uint32_t>(m);
      const auto rows = row_addresses(w, i, a, m);
      for (int lane = 0; lane < kLanes; ++lane) {
        const auto bits = static_cast<std::uint32_t>(w.cell(value, reg, lane).i);
        for (std::size_t h = 0; h < 2; ++h) {
          const bool valid =
              !w.has_poison(value) || !((w.poisoned_half(value, reg, h) >> lane) & 1);
          const MatrixElement p = element_at(lane, static_cast<int>(h), transposed);
          const std::uint32_t row = rows[static_cast<std::size_t>(p.row)];
          const auto element = static_cast<std::uint16_t>(bits >> (16 * h));
          std::uint8_t bytes[2];
          std::memcpy(bytes, &element, 2);
          if (row)
            store_shared(w, i, row + static_cast<std::uint32_t>(2 * p.column), bytes, 2, valid,
                         8 * m + p.row);
        }
      }
    }
  }
  return Step::Next;
}

// ---- mma.sync -----------------------------------------------------------------------------------

Step sim_Mma(Warp& w, const Instr& i) {
  const auto shape = i.op->attrs.ints(AttrName::shape), tiles = i.op->attrs.ints(AttrName::tiles);
  const MatrixElem& a_elem = matrix_elem(element_type(i, AttrName::a_type));
  const MatrixElem& b_elem = matrix_elem(element_type(i, AttrName::b_type));
  const std::int64_t mt = tiles.size() == 3 ? tiles[0] : 1, nt = tiles.size() == 3 ? tiles[1] : 1,
                     kt = tiles.size() == 3 ? tiles[2] : 1;
  const int a_regs = static_cast<int>(16 * shape[2] * a_elem.bytes / 128),
            b_regs = static_cast<int>(8 * shape[2] * b_elem.bytes / 128);
  const Slot a = i.in[0], b = i.in[1], c = i.in[2], out = i.out[0];
  if (w.info(a).regs != mt * kt * a_regs || w.info(b).regs != nt * kt * b_regs ||
      w.info(c).regs != mt * nt * 4 || is_float(w.info(c).elem.dtype) == a_elem.integer)
    throw InternalError(fmt::format(
        "mma: operands of {}, {} and {} registers do not fit the shape, types and tiles",
        w.info(a).regs, w.info(b).regs, w.info(c).regs));
  std::copy_n(w.cells(c), w.info(c).regs * kLanes, w.cells(out));
  std::copy_n(w.poison(c), w.info(c).regs, w.poison(out));
  const DType type = w.info(out).elem.dtype;
  Operand fa, fb;
  for (std::int64_t k = 0; k < kt; ++k) {
    for (std::int64_t m = 0; m < mt; ++m) {
      const std::int64_t ra = (m * kt + k) * a_regs;
      read_a_fragment(w.cells(a) + ra * kLanes, w.poison(a) + ra, a_regs, a_elem, fa);
      for (std::int64_t n = 0; n < nt; ++n) {
        const std::int64_t rb = (n * kt + k) * b_regs, rc = (m * nt + n) * 4;
        read_b_fragment(w.cells(b) + rb * kLanes, w.poison(b) + rb, b_regs, b_elem, fb);
        multiply_accumulate(fa, fb, type, true, w.cells(out) + rc * kLanes, w.poison(out) + rc);
      }
    }
  }
  ir::OpId origin = i.id;
  for (const Slot s : i.in)
    if (w.has_poison(s)) origin = w.poison_origin(s);
  w.wrote_poison(out, origin);
  return Step::Next;
}

Step sim_SmemDesc(Warp& w, const Instr& i) {
  constexpr int kAddressBits = 18;
  const ir::AttrList& attrs = i.op->attrs;
  for (int lane = 0; lane < kLanes; ++lane) {
    const auto address = static_cast<std::uint32_t>(w.cells(i.in[0])[lane].i);
    if (address >> kAddressBits != 0 && (w.mask >> lane & 1) != 0 && !w.has_poison(i.in[0]))
      w.cta.report(w, i, Detector::SharedBounds,
                   fmt::format("{} of {:#x}, whose upper bits get into other fields",
                               op_name(w.cta.kernel(), i.id), address),
                   lane, address);
    w.cells(i.out[0])[lane].i = static_cast<std::int64_t>(encode_descriptor(
        address, attrs.i(AttrName::lbo), attrs.i(AttrName::sbo), attrs.i(AttrName::swizzle)));
  }
  if (w.has_poison(i.in[0])) w.poison(i.out[0])[0] = w.poison(i.in[0])[0];
  if (w.has_poison(i.in[0]))
    w.wrote_poison(i.out[0], w.poison_origin(i.in[0]));
  else
    w.wrote_clean(i.out[0]);
  return Step::Next;
}

}  // namespace tegula::sim
