#include "runtime/warnings.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "ir/passes/schedule/live_tiles.h"

namespace tegula::runtime {
namespace {

enum class Cause : std::uint8_t {
#define TEGULA_WARNING(code, name, text, hint) name,
#include "runtime/warnings.def"
#undef TEGULA_WARNING
};

struct WarningRow {
  const char *code, *text, *hint;
};
constexpr WarningRow kWarningRows[] = {
#define TEGULA_WARNING(code, name, text, hint) {#code, text, hint},
#include "runtime/warnings.def"
#undef TEGULA_WARNING
};

class Collected {
 public:
  explicit Collected(std::string kernel) : kernel_(std::move(kernel)) {}

  template <class... Args>
  void add(Cause cause, Loc at, const Args&... args) {
    const WarningRow& row = kWarningRows[static_cast<std::size_t>(cause)];
    Warning w{row.code, kernel_, at, fmt::format(fmt::runtime(row.text), args...), row.hint};
    if (std::ranges::find(all, w) == all.end()) all.push_back(std::move(w));
  }

  /// Returns the line of the log with this code, or the code.
  static std::string line_of(const AssembleReport& r, std::string_view code) {
    const auto& lines = r.warnings;
    const auto found = std::ranges::find_if(
        lines, [&](const std::string& line) { return line.find(code) != std::string::npos; });
    return found == lines.end() ? std::string(code) : *found;
  }

  /// `largest`: text about the largest live tile.
  void of_report(const AssembleReport& r, const std::string& largest = {}) {
    const int spilled = r.spilled_bytes();
    if (spilled > 0) add(Cause::spills, {}, spilled, r.spill_stores, r.spill_loads, largest);
    if (r.stack > 0 && spilled == 0) add(Cause::stack, {}, r.stack);
    for (const std::string& code : r.codes) {
      if (code >= "C7510" && code <= "C7519") add(Cause::serialised, {}, line_of(r, code));
      if (code >= "C7504" && code <= "C7508") add(Cause::registers_kept, {}, line_of(r, code));
    }
  }

  /// Warns about spills with the largest live tile and the plan that avoids them.
  void of_code(const WarningSources& k) {
    const AssembleReport& r = k.artefact.report;
    if (r.spilled_bytes() == 0) return of_report(r);
    const ir::Value tile = ir::live_tiles(k.tile, k.artefact.threads).largest;
    std::string largest;
    if (tile) {
      largest = fmt::format("; the largest live tile is {}", k.tile.type(tile).str());
      const ir::OpId op = k.tile[tile].def;
      if (op && k.tile[op].loc.known())
        largest += fmt::format(" of {}:{}", k.tile[op].loc.file, k.tile[op].loc.line);
    }
    of_report(r, largest);
    for (const ir::Remark& remark : k.remarks) {
      if (remark.reason == kSpillsAnyway)
        all.front().hint = "no number of warps avoids it: use smaller tiles";
      if (remark.reason == kSpillsNotWith)
        all.front().hint = remark.values.front().first + " does not spill";
    }
  }

  /// Returns the lines of the dots that became mma. If their lines are not known, returns one
  /// unknown line or, if no dot became wgmma, the lines of all dots.
  static std::vector<Loc> products_by_mma(const WarningSources& k) {
    if (!k.artefact.has_mma) return {};
    std::vector<Loc> places;
    ir::walk(k.simt, k.simt.body(), [&](ir::OpId o) {
      if (k.simt[o].opcode == ir::Opcode::Mma) places.push_back(k.simt[o].loc);
    });
    if (!places.empty() && std::ranges::all_of(places, &Loc::known)) return places;
    places.assign(1, Loc());
    if (k.artefact.has_wgmma) return places;
    places.clear();
    ir::walk(k.tile, k.tile.body(), [&](ir::OpId o) {
      if (k.tile[o].opcode == ir::Opcode::Dot) places.push_back(k.tile[o].loc);
    });
    return places;
  }

  /// Returns the first reason that a pass gives, without its prefix.
  static std::string wgmma_missed_remark(const WarningSources& k) {
    for (const std::string_view begin : {"no wgmma: ", "wgmma=0: "})
      for (const ir::Remark& r : k.remarks)
        if (r.reason.starts_with(begin)) return r.reason.substr(begin.size());
    return "its loop is around something else, or inside a branch";
  }

  void of_products(const WarningSources& k) {
    if (!k.artefact.target->has_wgmma) return;
    for (const Loc at : products_by_mma(k)) add(Cause::no_wgmma, at, wgmma_missed_remark(k));
  }

  /// Warns about dots computed by FMA although tensor cores support their operand types.
  void of_scalar_products(const WarningSources& k) {
    for (const ir::Remark& r : k.remarks) {
      if (r.reason != "dot by FMA" || r.values.empty()) continue;
      const std::string& type = r.values.front().second;
      for (const std::string_view name : {"bf16", "f16", "f8e4m3", "f8e5m2", "i8", "u8"})
        if (type.find(fmt::format("x{}", name)) != std::string::npos)
          add(Cause::no_tensor_cores, r.loc, name);
    }
  }

  std::vector<Warning> all;

 private:
  std::string kernel_;
};

}  // namespace

Warning store_warning(const std::string& what) {
  Collected found("");
  found.add(Cause::store, {}, what);
  return std::move(found.all.front());
}

Warning worker_warning(const std::string& why) {
  Collected found("");
  found.add(Cause::worker, {}, why);
  return std::move(found.all.front());
}

std::vector<Warning> warnings_of_report(const std::string& kernel, const AssembleReport& report) {
  Collected found(kernel);
  found.of_report(report);
  return std::move(found.all);
}

std::vector<Warning> warnings_of(const WarningSources& sources) {
  if (sources.device == DeviceKind::cpu) return {};
  Collected found(sources.artefact.name);
  found.of_code(sources);
  found.of_products(sources);
  found.of_scalar_products(sources);
  return std::move(found.all);
}

Warning compiled_late_warning(const std::string& kernel, std::string_view target,
                              const std::string& key) {
  Collected found(kernel);
  found.add(Cause::compiled_late, {}, target, key);
  return std::move(found.all.front());
}

}  // namespace tegula::runtime
