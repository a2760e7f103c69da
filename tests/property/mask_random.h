#pragma once
// Random masks as IR, and what they give at every element by the interpreter's own scalar ops.
#include <array>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <random>
#include <vector>

#include "ir/analysis/mask/blocks.h"
#include "ir/builder.h"
#include "ir/eval/cell.h"

namespace tegula::ir::testing {

inline constexpr std::size_t kParamCount = 3;

/// A kernel whose arguments are those of a mask, and three numbers of the launch.
struct MaskKernel {
  Kernel kernel{"mask"};
  Builder build{kernel};
  MaskArgs roles;
  std::array<Value, kParamCount> params;
  Value table;
  std::vector<std::int64_t> entries;
  Value root;

  MaskKernel() {
    const Type i32 = Type::scalar(DType::i32);
    for (Value* v : {&roles.batch, &roles.head, &roles.query, &roles.key})
      *v = kernel.add_param("x", i32);
    for (Value& v : params) v = kernel.add_param("p", i32);
    ViewFacts facts;
    facts.strides = {1};
    facts.dim_div = {1};
    facts.stride_div = {1};
    table = kernel.add_param("t", Type::view(DType::i32, Ints{kDynamic}, facts));
  }
  /// The table as the launch passes it; it has an entry for every position of most blocks.
  std::vector<MaskTable> tables() const { return {MaskTable(entries)}; }
  MaskExpr import() const { return import_mask(kernel, root, roles); }

  /// The values of the analysis' slots, from those of the three numbers.
  std::vector<std::int64_t> slots(const MaskExpr& e, const std::array<std::int64_t, 3>& p) const {
    std::vector<std::int64_t> values;
    for (const Value v : e.params)
      for (std::size_t i = 0; i < kParamCount; ++i)
        if (params[i] == v) values.push_back(p[i]);
    return values;
  }
};

/// The root at every element of a block, row by row; an element that divides by zero is left
/// out. An entry outside of the table is 0.
struct BruteForce {
  std::vector<std::int64_t> values;
  bool all = true, any = false;

  BruteForce(const MaskKernel& m, const MaskBlock& b, const std::array<std::int64_t, 3>& p) {
    const auto rows = static_cast<std::size_t>(b.q1 - b.q0);
    const auto cols = static_cast<std::size_t>(b.kv1 - b.kv0);
    const std::size_t n = rows * cols;
    std::map<Value, std::vector<Cell>> cells;
    const auto fill = [&](Value v, auto f) {
      std::vector<Cell>& c = cells[v];
      c.resize(n);
      for (std::size_t i = 0; i < n; ++i) c[i].i = f(i);
    };
    const auto signed_of = [](std::size_t i) { return static_cast<std::int64_t>(i); };
    fill(m.roles.batch, [&](std::size_t) { return b.batch; });
    fill(m.roles.head, [&](std::size_t) { return b.head; });
    fill(m.roles.query, [&](std::size_t i) { return b.q0 + signed_of(i / cols); });
    fill(m.roles.key, [&](std::size_t i) { return b.kv0 + signed_of(i % cols); });
    for (std::size_t k = 0; k < kParamCount; ++k)
      fill(m.params[k], [&](std::size_t) { return p[k]; });
    std::vector<std::uint8_t> poison(n, 0);
    for (const OpId op : m.kernel.ops(m.kernel.body())) run(m, op, cells, n, poison);
    const std::vector<Cell>& root = cells[m.root];
    for (std::size_t i = 0; i < n; ++i) {
      if (poison[i]) continue;
      values.push_back(root[i].i);
      all = all && root[i].i != 0;
      any = any || root[i].i != 0;
    }
  }

  static void run(const MaskKernel& m, OpId op, std::map<Value, std::vector<Cell>>& cells,
                  std::size_t n, std::vector<std::uint8_t>& poison) {
    const Kernel& k = m.kernel;
    const OpData& d = k[op];
    std::vector<Cell>& out = cells[d.results[0]];
    out.resize(n);
    if (d.opcode == Opcode::LoadView) {
      const auto size = static_cast<std::int64_t>(m.entries.size());
      for (std::size_t i = 0; i < n; ++i) {
        const std::int64_t at = cells[d.operands[1]][i].i;
        const bool inside = 0 <= at && at < size;
        out[i].i = inside ? m.entries[static_cast<std::size_t>(at)] : 0;
      }
      return;
    }
    if (d.opcode == Opcode::Const) {
      for (Cell& c : out) c.i = d.attrs.i(AttrName::value);
      return;
    }
    std::vector<Elem> in;
    std::vector<const Cell*> operands;
    for (const Value v : d.operands) {
      in.push_back(k.type(v).elem());
      operands.push_back(cells[v].data());
    }
    const std::vector<std::size_t> strides(in.size(), 1);
    elementwise_fn(d.opcode)({d.attrs, in, k.type(d.results[0]).elem(), operands, strides,
                              out.data(), n, poison.data()});
  }
};

/// Draws masks over every op the analysis knows, in shapes that masks have and in shapes that none
/// has.
class RandomMasks {
 public:
  explicit RandomMasks(std::uint64_t seed) : random_(seed) {}

  std::int64_t number(std::int64_t lo, std::int64_t hi) {
    return std::uniform_int_distribution<std::int64_t>(lo, hi)(random_);
  }
  bool chance(int percent) { return number(0, 99) < percent; }

  /// A table to look up: document ids, or anything.
  void fill_table(MaskKernel& m) {
    const bool ascending = chance(60);
    std::int64_t entry = number(-3, 3);
    for (int i = 0; i < 130; ++i) {
      if (!ascending)
        entry = number(-5, 20);
      else if (chance(15))
        entry += number(1, 4);
      m.entries.push_back(entry);
    }
  }

  Value integer(MaskKernel& m, int depth) {
    if (chance(6)) return entry(m, chance(70) ? leaf(m) : integer(m, depth - 1));
    if (depth <= 0 || chance(15)) return leaf(m);
    const auto sub = [&] { return integer(m, depth - 1); };
    Builder& b = m.build;
    switch (number(0, 15)) {
      case 0:
        return b.add(sub(), sub());
      case 1:
      case 2:
        return b.sub(sub(), sub());
      case 3:
        return b.mul(sub(), chance(70) ? constant(m, -5, 9) : sub());
      case 4:
      case 5:
        return b.div(sub(), chance(85) ? constant(m, 1, 24) : sub());
      case 6:
      case 7:
        return b.rem(sub(), chance(85) ? constant(m, 1, 24) : sub());
      case 8:
        return b.op(chance(50) ? Opcode::Min : Opcode::Max, {sub(), sub()});
      case 9:
        return b.select(boolean(m, depth - 1), sub(), sub());
      case 10:
        return b.op(Opcode::Abs, {sub()});
      case 11:
        return b.op(chance(50) ? Opcode::Neg : Opcode::Not, {sub()});
      case 12: {
        const Value x = sub();
        return b.op(chance(30) ? Opcode::Shl : Opcode::Shr,
                    {x, chance(90) ? constant(m, 0, 6) : sub()});
      }
      case 13:
      case 14: {
        const std::array ops{Opcode::And, Opcode::Or, Opcode::Xor};
        const Opcode op = ops[static_cast<std::size_t>(number(0, 2))];
        const Value x = sub();
        const Value mask = chance(50)   ? b.i32((std::int64_t{1} << number(0, 7)) - 1)
                           : chance(60) ? constant(m, -40, 100)
                                        : sub();
        return b.op(op, {x, mask});
      }
      default:
        return through_type(m, sub());
    }
  }

  Value boolean(MaskKernel& m, int depth) {
    const auto sub = [&] { return boolean(m, depth - 1); };
    Builder& b = m.build;
    if (depth > 0 && chance(12)) return batched(m, depth);
    if (depth > 0 && chance(8)) return documents(m, depth);
    if (chance(8)) return decoded(m);
    if (chance(4)) return bit_test(m);
    if (chance(20)) return ordered(m, depth);
    if (depth > 0 && chance(55)) {
      switch (number(0, 6)) {
        case 0:
        case 1:
        case 2:
          return b.op(Opcode::And, {sub(), sub()});
        case 3:
        case 4:
          return b.op(Opcode::Or, {sub(), sub()});
        case 5:
          return b.op(Opcode::Xor, {sub(), sub()});
        default:
          return b.op(Opcode::Not, {sub()});
      }
    }
    const std::array preds{"eq", "ne", "lt", "le", "gt", "ge"};
    const char* pred = preds[static_cast<std::size_t>(number(0, 5))];
    const Value x = integer(m, depth), y = integer(m, depth - 1);
    if (chance(90)) return b.cmp(pred, x, y);
    return b.cmp(pred, wide(m, x), wide(m, y));
  }

  /// Coordinates of positions by quotients and remainders: compared, put together again, with the
  /// same number as before or with others.
  Value decoded(MaskKernel& m) {
    const Grid g = grid(m);
    const Value q = moved(m, m.roles.query), kv = moved(m, m.roles.key);
    const Value x = coordinates(m, q, g), y = coordinates(m, kv, g);
    const std::array preds{"eq", "ne", "lt", "le", "gt", "ge"};
    const char* pred = preds[static_cast<std::size_t>(number(0, 5))];
    Builder& b = m.build;
    if (chance(30)) return b.cmp(pred, y, chance(50) ? q : leaf(m));
    if (chance(50)) return b.cmp(pred, x, y);
    return b.cmp("le", b.op(Opcode::Abs, {b.sub(x, y)}), constant(m, 0, 9));
  }

  /// A bit of a table's entry: of the query's, of the key's, or of a row of bits.
  Value bit_test(MaskKernel& m) {
    Builder& b = m.build;
    const Value row = chance(70) ? m.roles.query : m.roles.key;
    const Value column = chance(70) ? m.roles.key : m.roles.query;
    const Value n = chance(70) ? b.i32(8) : constant(m, 1, 12);
    const Value word = chance(40) ? entry(m, row) : entry(m, b.add(row, b.div(column, n)));
    const Value place = chance(20)   ? constant(m, 0, 5)
                        : chance(30) ? b.div(column, n)
                                     : b.rem(b.op(Opcode::Abs, {column}), n);
    const Value bit = chance(50) ? b.op(Opcode::And, {b.op(Opcode::Shr, {word, place}), b.i32(1)})
                                 : b.op(Opcode::And, {word, b.op(Opcode::Shl, {b.i32(1), place})});
    return b.cmp(chance(70) ? "ne" : "eq", bit, b.i32(0));
  }

  MaskBlock block() {
    const auto start = [&]() -> std::int64_t {
      if (chance(2)) return 2147483647 - number(0, 20) - 20;
      if (chance(4)) return number(-60, 0);
      return chance(50) ? number(0, 8) * 8 : number(0, 100);
    };
    MaskBlock b;
    b.batch = number(0, 3);
    b.head = number(0, 7);
    b.q0 = start();
    b.q1 = b.q0 + number(1, 16);
    b.kv0 = start();
    b.kv1 = b.kv0 + number(1, 16);
    return b;
  }
  std::array<std::int64_t, 3> params() {
    const auto one = [&] {
      return chance(3) ? number(-2147483648LL, 2147483647LL) : number(-4, 70);
    };
    return {one(), one(), one()};
  }

 private:
  /// Sizes to divide by: `row` for the lower coordinate, `plane` for the higher one where there are
  /// three.
  struct Grid {
    Value row, rows, plane;
    bool is_shift;
  };
  Grid grid(MaskKernel& m) {
    Builder& b = m.build;
    const std::int64_t log = number(0, 4), width = number(1, 14), height = number(1, 6);
    if (chance(20)) return {b.i32(log), b.i32(height), b.i32(height << log), true};
    if (chance(20)) return {m.params[0], b.i32(height), m.params[1], false};
    return {b.i32(width), b.i32(height), b.i32(chance(80) ? width * height : number(1, 90)), false};
  }
  Value moved(MaskKernel& m, Value position) {
    return chance(75) ? position : m.build.add(position, leaf(m));
  }
  /// One coordinate, or a sum of them.
  Value coordinates(MaskKernel& m, Value position, const Grid& g) {
    Builder& b = m.build;
    const Value i = chance(20) ? b.sub(position, constant(m, 0, 120)) : position;
    const Value high = b.op(g.is_shift ? Opcode::Shr : Opcode::Div, {i, g.row});
    const Value low = g.is_shift   ? b.sub(i, b.op(Opcode::Shl, {high, g.row}))
                      : chance(30) ? b.sub(i, b.mul(high, g.row))
                                   : b.rem(i, g.row);
    const Value other = chance(70) ? g.rows : constant(m, -3, 20);
    switch (number(0, 5)) {
      case 0:
        return low;
      case 1:
        return high;
      case 2:
        return g.is_shift ? b.add(b.op(Opcode::Shl, {high, g.row}), low)
                          : b.add(b.mul(high, g.row), low);
      case 3:
        return b.add(b.mul(high, other), low);
      case 4:
        return b.add(b.mul(b.div(i, g.plane), other), b.rem(i, chance(50) ? g.row : g.plane));
      default: {  // three digits, the middle one by bits where that is not a digit, too
        const Value middle = chance(30) ? b.op(Opcode::And, {high, b.i32(7)}) : b.rem(high, g.rows);
        const Value upper = b.add(b.mul(b.div(i, g.plane), other), middle);
        return chance(50) || g.is_shift ? upper : b.add(b.mul(upper, g.row), low);
      }
    }
  }
  Value constant(MaskKernel& m, std::int64_t lo, std::int64_t hi) {
    return m.build.i32(number(lo, hi));
  }
  Value leaf(MaskKernel& m) {
    const std::int64_t which = number(0, 9);
    if (which <= 2) return m.roles.query;
    if (which <= 5) return m.roles.key;
    if (which == 6) return m.params[static_cast<std::size_t>(number(0, 2))];
    if (which == 7) return chance(50) ? m.roles.batch : m.roles.head;
    return constant(m, -8, 64);
  }
  /// kv, scaled, moved and divided, against an expression.
  Value ordered(MaskKernel& m, int depth) {
    Builder& b = m.build;
    Value x = m.roles.key;
    if (chance(40)) x = b.mul(x, constant(m, -4, 4));
    if (chance(60)) x = chance(50) ? b.add(x, leaf(m)) : b.sub(leaf(m), x);
    if (chance(50))
      x = b.div(x, chance(70) ? constant(m, 1, 12) : m.params[0]);
    else if (chance(30))
      x = b.op(Opcode::Shr, {x, constant(m, 0, 4)});
    if (chance(30)) x = b.add(x, leaf(m));
    const std::array preds{"eq", "ne", "lt", "le", "gt", "ge"};
    const Value other = chance(70) ? m.roles.query : integer(m, depth - 1);
    return b.cmp(preds[static_cast<std::size_t>(number(0, 5))], x, other);
  }
  /// The same mask in each group of n queries and keys: q / n == kv / n, then inner(q % n, kv % n).
  Value batched(MaskKernel& m, int depth) {
    Builder& b = m.build;
    const std::int64_t log = number(0, 4);
    const bool shift = chance(35);
    const Value n = shift ? b.i32(log) : chance(60) ? constant(m, 1, 20) : m.params[1];
    const Value q = chance(30) ? b.add(m.roles.query, leaf(m)) : m.roles.query;
    const Value kv = chance(30) ? b.sub(m.roles.key, m.params[2]) : m.roles.key;
    const Opcode divide = shift ? Opcode::Shr : Opcode::Div;
    const Value group = b.cmp("eq", b.op(divide, {q, n}), b.op(divide, {kv, n}));
    const Value mask = b.i32((std::int64_t{1} << log) - 1);
    const Value q_in = shift ? b.op(Opcode::And, {q, mask}) : b.rem(q, n);
    const Value kv_in = shift ? b.op(Opcode::And, {kv, mask}) : b.rem(kv, n);
    const Value inner = chance(50) ? b.cmp("le", kv_in, q_in)
                                   : b.cmp("lt", b.sub(q_in, kv_in), integer(m, depth - 2));
    return b.op(Opcode::And, {group, inner});
  }
  /// In 64 bits and at their limits, where the analysis' own arithmetic ends.
  Value wide(MaskKernel& m, Value x) {
    const std::array ops{Opcode::Add, Opcode::Sub, Opcode::Mul, Opcode::Div, Opcode::Rem,
                         Opcode::Shl, Opcode::Shr, Opcode::And, Opcode::Or,  Opcode::Xor,
                         Opcode::Min, Opcode::Max, Opcode::Abs, Opcode::Neg, Opcode::Not};
    x = m.build.cast(x, DType::i64);
    for (std::int64_t n = number(1, 4); n > 0; --n) {
      const std::size_t which = static_cast<std::size_t>(number(0, 14));
      const auto power = static_cast<std::int64_t>(std::uint64_t{1} << number(0, 63));
      const std::int64_t c = chance(50) ? power : chance(50) ? ~power : number(-3, 66);
      if (which >= 12)
        x = m.build.op(ops[which], {x});
      else
        x = m.build.op(ops[which], {x, m.build.i64(c)});
    }
    return x;
  }
  Value entry(MaskKernel& m, Value index) {
    return m.build.op(Opcode::LoadView, {m.table, index}, Type::scalar(DType::i32),
                      {{AttrName::axes, Ints{}}});
  }
  /// One document, and inner of the positions less what the table says of the document.
  Value documents(MaskKernel& m, int depth) {
    Builder& b = m.build;
    const Value q = entry(m, m.roles.query), kv = entry(m, m.roles.key);
    const Value same = b.cmp("eq", q, kv);
    if (chance(30)) return same;
    const Value x = b.sub(m.roles.query, chance(50) ? q : entry(m, q));
    const Value y = b.sub(m.roles.key, chance(50) ? kv : entry(m, kv));
    const Value inner =
        chance(50) ? b.cmp("le", y, x) : b.cmp("lt", b.sub(x, y), integer(m, depth - 2));
    return b.op(Opcode::And, {same, inner});
  }
  /// By way of another integer type, which may lose bits.
  Value through_type(MaskKernel& m, Value x) {
    const std::array types{DType::i64, DType::u32, DType::i8, DType::u8, DType::i16};
    const DType d = types[static_cast<std::size_t>(number(0, 4))];
    const Value there = m.build.cast(x, d);
    const Value more = chance(50) ? m.build.add(there, there) : there;
    return m.build.cast(more, DType::i32);
  }

  std::mt19937_64 random_;
};

}  // namespace tegula::ir::testing
