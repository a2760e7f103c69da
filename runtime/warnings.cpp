#include "runtime/warnings.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string_view>

namespace tegula::runtime {
namespace {

enum class Cause : std::uint8_t {
#define TEGULA_WARNING(code, name, text, hint) name,
#include "runtime/warnings.def"
#undef TEGULA_WARNING
};

struct Row {
  const char *code, *text, *hint;
};
constexpr Row kRows[] = {
#define TEGULA_WARNING(code, name, text, hint) {#code, text, hint},
#include "runtime/warnings.def"
#undef TEGULA_WARNING
};

class Collected {
 public:
  explicit Collected(const CompiledKernel& k) : k_(k) {}

  template <class... Args>
  void add(Cause cause, Loc at, const Args&... args) {
    const Row& row = kRows[static_cast<std::size_t>(cause)];
    Warning w{row.code, k_.name, at, fmt::format(fmt::runtime(row.text), args...), row.hint};
    if (std::ranges::find(all, w) == all.end()) all.push_back(std::move(w));
  }

  /// The line of the log with this code, or the code.
  std::string line_of(std::string_view code) const {
    const auto& lines = k_.report.warnings;
    const auto found = std::ranges::find_if(
        lines, [&](const std::string& line) { return line.find(code) != std::string::npos; });
    return found == lines.end() ? std::string(code) : *found;
  }

  void of_report() {
    const AssembleReport& r = k_.report;
    const int spilled = std::max(r.spill_stores, r.spill_loads);
    if (spilled > 0) add(Cause::spills, {}, spilled, r.spill_stores, r.spill_loads);
    if (r.stack > 0 && spilled == 0) add(Cause::stack, {}, r.stack);
    for (const std::string& code : r.codes) {
      if (code >= "C7510" && code <= "C7519") add(Cause::serialised, {}, line_of(code));
      if (code >= "C7504" && code <= "C7508") add(Cause::registers_kept, {}, line_of(code));
    }
  }

  /// Lines of the products that became this op: all there are, where no line is known and none
  /// became the other.
  std::vector<Loc> products_by(ir::Opcode op, ir::Opcode other) const {
    std::vector<Loc> places;
    bool has_other = false, is_any_unknown = false;
    ir::walk(k_.simt, k_.simt.body(), [&](ir::OpId o) {
      has_other |= k_.simt[o].opcode == other;
      if (k_.simt[o].opcode != op) return;
      places.push_back(k_.simt[o].loc);
      is_any_unknown |= !k_.simt[o].loc.known();
    });
    if (!is_any_unknown) return places;
    places.assign(1, Loc());
    if (has_other) return places;
    places.clear();
    ir::walk(k_.tile, k_.tile.body(), [&](ir::OpId o) {
      if (k_.tile[o].opcode == ir::Opcode::Dot) places.push_back(k_.tile[o].loc);
    });
    return places;
  }

  /// The first reason that a pass gives, behind its colon.
  std::string why_no_wgmma() const {
    for (const std::string_view begin : {"no wgmma: ", "wgmma=0: "})
      for (const ir::Remark& r : k_.remarks)
        if (r.reason.starts_with(begin)) return r.reason.substr(begin.size());
    return "its loop is around something else, or inside a branch";
  }

  void of_products() {
    if (!k_.target.starts_with("sm_90")) return;
    for (const Loc at : products_by(ir::Opcode::Mma, ir::Opcode::Wgmma))
      add(Cause::no_wgmma, at, why_no_wgmma());
  }

  /// The operands are of types that tensor cores take as they are.
  void of_scalar_products() {
    for (const ir::Remark& r : k_.remarks) {
      if (r.reason != "dot by FMA" || r.values.empty()) continue;
      const std::string& type = r.values.front().second;
      for (const std::string_view name : {"bf16", "f16", "f8e4m3", "f8e5m2", "i8", "u8"})
        if (type.find(fmt::format("x{}", name)) != std::string::npos)
          add(Cause::no_tensor_cores, r.loc, name);
    }
  }

  std::vector<Warning> all;

 private:
  const CompiledKernel& k_;
};

}  // namespace

std::vector<Warning> warnings_of(const CompiledKernel& k) {
  Collected found(k);
  if (k.device.kind == DeviceKind::cpu) return {};
  found.of_report();
  found.of_products();
  found.of_scalar_products();
  return std::move(found.all);
}

}  // namespace tegula::runtime
