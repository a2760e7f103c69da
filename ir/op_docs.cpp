// Prints the op table as Markdown.
#include "ir/op_docs.h"

#include <fmt/format.h>

#include <array>

#include "ir/op.h"
#include "support/markdown.h"

namespace tegula::ir {
namespace {

constexpr std::array<std::string_view, 6> kFamilies{
    "Structure: legal in every form",
    "Elementwise: on scalars, tiles and registers alike",
    "Math: elementwise, expanded before the simt form",
    "Tile ops: tile and machine form",
    "Machine ops: machine form",
    "SIMT ops: one instruction, or a run of equal ones, of a thread"};

std::string arity(const OpInfo& row) {
  const std::string most = row.operands.max < 0 ? "" : fmt::format("{}", row.operands.max);
  const std::string operands =
      row.operands.min == row.operands.max ? most : fmt::format("{}..{}", row.operands.min, most);
  const std::string results = row.results == kVariadic ? "any" : fmt::format("{}", row.results);
  return fmt::format("{} -> {}{}", operands, results,
                     row.regions == 0           ? ""
                     : row.regions == kVariadic ? ", regions"
                                                : fmt::format(", {} region(s)", row.regions));
}

}  // namespace

std::string ops_markdown() {
  std::string out =
      "# The IR\n\n" +
      markdown_paragraph(
          "Generated from `ir/ops.def` and `ir/attrs.def` by `TEGULA_BLESS=1 unit_ir_docs_test`; "
          "the "
          "text form is described in `ir/text.h`. One container holds three forms: `tile` (tiles "
          "without layout, views, scalars; run by the interpreter), `machine` (tiles with layouts, "
          "shared memory, barriers; run by the interpreter) and `simt` (registers of one thread; "
          "emitted, and run by the simulator).") +
      "\nThe numbers after an op are those of its operands and results.\n";
  for (std::size_t family = 0; family < kFamilies.size(); ++family) {
    out += fmt::format("\n## {}\n\n", kFamilies[family]);
    for (const OpInfo& row : all_ops())
      if (static_cast<std::size_t>(row.family) == family)
        out += markdown_item(fmt::format("`{}` ({}): {}", row.mnemonic, arity(row), row.doc));
  }
  out += "\n## Attributes\n\n";
  for (const AttrInfo& a : all_attrs())
    out += markdown_item(fmt::format("`{}`: {}", a.name, a.doc));
  return out;
}

}  // namespace tegula::ir
