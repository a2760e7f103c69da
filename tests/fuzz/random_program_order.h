#pragma once
// Scans by functions, sorts and ranks of random programs.
#include "tests/fuzz/random_program_tiles.h"

namespace tegula::fuzz {

/// The map x -> a x + b of wrapping integers, whose composition does not commute, or one integer
/// that wins by itself.
inline void RandomProgram::grow_scan_with() {
  const Shape s = shape_of(any_tile());
  const std::int64_t axis = below(std::ssize(s));
  const auto fits = [](const Known& k) { return k.error == 0; };
  std::vector<Known> from{get(DType::i32, s, fits)};
  if (chance(60)) from.push_back(get(DType::i32, s, fits));
  const bool is_exclusive = chance(40);
  std::vector<ir::Value> operands;
  for (const Known& k : from) operands.push_back(k.v);
  if (is_exclusive)
    for (std::size_t i = 0; i < from.size(); ++i)
      operands.push_back(constant(DType::i32, {}, from.size() == 2 && i == 0 ? 1 : 0).v);
  const ir::OpId op = b_.create(ir::Opcode::ScanWith, operands,
                                ir::attr_list({{ir::AttrName::axis, axis},
                                               {ir::AttrName::reverse, chance(40)},
                                               {ir::AttrName::exclusive, is_exclusive}}));
  const ir::RegionId outer = b_.region(), body = kernel.add_region(op);
  std::vector<ir::Value> args;
  for (std::size_t i = 0; i < 2 * from.size(); ++i)
    args.push_back(kernel.add_arg(body, ir::Type::scalar(DType::i32)));
  b_.at_end(body);
  if (from.size() == 2)
    b_.yield(std::array{b_.mul(args[0], args[2]), b_.add(b_.mul(args[2], args[1]), args[3])});
  else
    b_.yield(
        std::array{b_.op(is_exclusive ? ir::Opcode::Add : ir::Opcode::Max, {args[0], args[1]})});
  b_.at_end(outer);
  for (std::size_t i = 0; i < from.size(); ++i) {
    Known k = join(kernel[op].results[i], {&from[0], &from.back()});
    k.magnitude = 0x1p31;
    keep(k);
  }
}

/// Any type in either direction, all of it or the first few.
inline void RandomProgram::grow_sort() {
  const Known a = any_tile();
  if (a.error > 0) return;
  const std::int64_t axis = below(type(a).rank());
  const std::int64_t extent = type(a).shape()[static_cast<std::size_t>(axis)];
  const std::array operands{a.v};
  const ir::OpId op =
      b_.create(ir::Opcode::Sort, operands,
                ir::attr_list({{ir::AttrName::axis, axis},
                               {ir::AttrName::descending, chance(50)},
                               {ir::AttrName::count, chance(50) ? 0 : between(1, extent)}}));
  Known values = a, indices = a;
  values.v = kernel[op].results[0], indices.v = kernel[op].results[1];
  indices.magnitude = static_cast<double>(extent);
  indices.whole = true;
  keep(values);
  keep(indices);
}

/// Keys of a line, some of them outside of the bins.
inline void RandomProgram::grow_key_ranks() {
  const std::int64_t n = chance(80) ? extent() : between(1, 1024);
  Known keys = get(DType::i32, {n}, [](const Known& k) { return k.error == 0; });
  const std::int64_t bins = between(1, 40);
  keys.v = b_.sub(b_.op(ir::Opcode::And, {keys.v, constant(DType::i32, {n}, 31).v}),
                  constant(DType::i32, {n}, static_cast<double>(below(3))).v);
  const std::array operands{keys.v};
  const ir::OpId op =
      b_.create(ir::Opcode::KeyRanks, operands, ir::attr_list({{ir::AttrName::count, bins}}));
  Known ranks = keys, counts = constant(DType::i32, {bins}, 0);
  ranks.v = kernel[op].results[0], counts.v = kernel[op].results[1];
  ranks.magnitude = counts.magnitude = static_cast<double>(n);
  keep(ranks);
  keep(counts);
}

}  // namespace tegula::fuzz
