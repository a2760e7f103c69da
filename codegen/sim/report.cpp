// Names of the detectors, and collection and text of findings.
#include <fmt/format.h>

#include "codegen/sim/findings.h"
#include "tegula/error.h"

namespace tegula::sim {
namespace {

struct DetectorRow {
  std::string_view name, code, doc;
};
constexpr DetectorRow kRows[] = {
#define DETECTOR(Name, text, code, doc) {text, #code, doc},
#define SHARED_DETECTOR(Name, text, kind) \
  {text, ir::code(ir::FindingKind::kind), ir::row(ir::FindingKind::kind).meaning},
#include "codegen/sim/detectors.def"
#undef DETECTOR
#undef SHARED_DETECTOR
};

std::string place(const Loc& loc) {
  return loc.known() ? fmt::format("{}:{}:{}", loc.file, loc.line, loc.column) : std::string("?");
}

}  // namespace

std::string_view name(Detector d) { return kRows[static_cast<std::size_t>(d)].name; }
std::string_view code(Detector d) { return kRows[static_cast<std::size_t>(d)].code; }
std::string_view doc(Detector d) { return kRows[static_cast<std::size_t>(d)].doc; }

Detector detector_of(ir::FindingKind kind) {
  switch (kind) {
#define DETECTOR(Name, text, code, doc)
#define SHARED_DETECTOR(Name, text, kind) \
  case ir::FindingKind::kind:             \
    return Detector::Name;
#include "codegen/sim/detectors.def"
#undef DETECTOR
#undef SHARED_DETECTOR
    default:
      break;
  }
  throw InternalError("no detector of this finding");
}

std::string_view op_name(const ir::Kernel& kernel, ir::OpId op) {
  return op ? ir::info(kernel[op].opcode).mnemonic : std::string_view("kernel start");
}

std::string position_text(const Loc& loc) {
  return loc.known() ? fmt::format(" at {}:{}", loc.file, loc.line) : std::string();
}

std::string Finding::str() const { return fmt::format("{}: {}", place(loc), what()); }

std::string Finding::what() const {
  std::string s = fmt::format("{}: {} (cta {},{},{}", name(kind), text, cta[0], cta[1], cta[2]);
  if (warp >= 0) s += fmt::format(" warp {}", warp);
  if (lane >= 0) s += fmt::format(" lane {}", lane);
  s += ")";
  if (count > 1) s += fmt::format(" x{}", count);
  return s;
}

std::int64_t Counters::bank_conflicts() const {
  std::int64_t n = 0;
  for (const AccessCounter& a : accesses) n += a.bank_conflicts();
  return n;
}

std::int64_t Counters::excess_sectors() const {
  std::int64_t n = 0;
  for (const AccessCounter& a : accesses) n += a.excess_sectors();
  return n;
}

const Finding* Report::find(Detector d) const {
  for (const Finding& f : findings)
    if (f.kind == d) return &f;
  return nullptr;
}

std::string Report::str() const {
  std::string s;
  for (const Finding& f : findings) s += f.str() + "\n";
  return s;
}

bool Findings::is_repetition(const Fault& fault) {
  const auto it = known_.find({fault.kind, fault.op.index, fault.other.index});
  if (it == known_.end()) return false;
  if (it->second < list_.size()) ++list_[it->second].count;
  return true;
}

void Findings::add(const Fault& fault, std::string text) {
  if (!wants(fault.kind)) return;
  if (is_repetition(fault)) return;
  known_.try_emplace({fault.kind, fault.op.index, fault.other.index}, list_.size());
  if (list_.size() >= static_cast<std::size_t>(options_.max_findings)) return;
  const ir::Kernel& k = program_.kernel();
  Finding f;
  f.kind = fault.kind;
  f.text = std::move(text);
  if (fault.op) f.loc = k[fault.op].loc;
  if (fault.other) f.other = k[fault.other].loc;
  f.cta = cta_;
  f.warp = fault.warp;
  f.lane = fault.lane;
  f.address = fault.address;
  list_.push_back(std::move(f));
}

}  // namespace tegula::sim
