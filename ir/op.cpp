// The op and attribute tables, made from ops.def and attrs.def.
#include "ir/op.h"

#include <unordered_map>

#include "ir/infer.h"

namespace tegula::ir {
namespace {

constexpr InferFn infer_explicit = nullptr;

#define ENTRY(family, Name, mnemonic, operands, results, regions, infer, traits, doc) \
  OpInfo{#Name, mnemonic, Family::family, operands, results, regions, infer, traits, doc},
#define STRUCTURE(...) ENTRY(Structure, __VA_ARGS__)
#define ELEMENTWISE(Name, mnemonic, operands, infer, traits, doc) \
  ENTRY(Elementwise, Name, mnemonic, operands, 1, 0, infer, traits, doc)
#define MATH(Name, mnemonic, operands, infer, traits, doc) \
  ENTRY(Math, Name, mnemonic, operands, 1, 0, infer, traits, doc)
#define TILE_OP(...) ENTRY(Tile, __VA_ARGS__)
#define MACHINE_OP(...) ENTRY(Machine, __VA_ARGS__)
#define SIMT_OP(...) ENTRY(Simt, __VA_ARGS__)
constexpr std::array kOps{
#include "ir/op_rows.h"
};
#undef ENTRY

constexpr std::array kAttrs{
#define ATTR(name, kind, doc) AttrInfo{#name, AttrKind::kind, doc},
#include "ir/attrs.def"
#undef ATTR
};

template <class Key, class Table, class Project>
std::unordered_map<std::string_view, Key> index_by_name(const Table& table, Project project) {
  std::unordered_map<std::string_view, Key> index;
  for (std::size_t i = 0; i < table.size(); ++i)
    index.emplace(project(table[i]), static_cast<Key>(i));
  return index;
}

constexpr std::array<std::string_view, 3> kForms{"tile", "machine", "simt"};

}  // namespace

bool OpInfo::allowed_in(Form form) const {
  // Expert ops (simt) are legal in any form: passes leave them unchanged.
  if (family == Family::Structure || family == Family::Elementwise || family == Family::Simt)
    return true;
  if (family == Family::Machine) return form == Form::Machine;
  return form != Form::Simt;
}

const OpInfo& info(Opcode op) { return kOps[static_cast<std::size_t>(op)]; }
const AttrInfo& info(AttrName attr) { return kAttrs[static_cast<std::size_t>(attr)]; }
std::span<const OpInfo> all_ops() { return kOps; }
std::span<const AttrInfo> all_attrs() { return kAttrs; }

std::optional<Opcode> find_op(std::string_view mnemonic) {
  static const auto index = index_by_name<Opcode>(kOps, [](const OpInfo& i) { return i.mnemonic; });
  const auto it = index.find(mnemonic);
  return it == index.end() ? std::nullopt : std::optional(it->second);
}

std::optional<AttrName> find_attr(std::string_view name) {
  static const auto index =
      index_by_name<AttrName>(kAttrs, [](const AttrInfo& i) { return i.name; });
  const auto it = index.find(name);
  return it == index.end() ? std::nullopt : std::optional(it->second);
}

std::optional<std::size_t> mask_operand(Opcode op) {
  struct MaskRow {
    Opcode op;
    std::size_t mask;
  };
  using enum Opcode;
  static constexpr std::array kRows{MaskRow{Load, 1},       MaskRow{Store, 2},
                                    MaskRow{AtomicRmw, 2},  MaskRow{AtomicCas, 3},
                                    MaskRow{AtomicLoad, 1}, MaskRow{AtomicStore, 2}};
  for (const MaskRow& row : kRows)
    if (row.op == op) return row.mask;
  return std::nullopt;
}

std::string_view name(Form form) { return kForms[static_cast<std::size_t>(form)]; }

std::optional<Form> parse_form(std::string_view text) {
  for (std::size_t i = 0; i < kForms.size(); ++i)
    if (kForms[i] == text) return static_cast<Form>(i);
  return std::nullopt;
}

}  // namespace tegula::ir
