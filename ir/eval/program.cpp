// Values, faults and dispatch of one running program.
#include "ir/eval/program.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/analysis/scatter_update.h"
#include "tegula/error.h"

namespace tegula::ir::interp {
namespace {

constexpr std::size_t kMaxFindings = 64;

void eval_elsewhere(Program& p, OpId op) {
  throw InternalError(
      fmt::format("{} cannot be executed by the interpreter", info(p.op(op).opcode).mnemonic));
}

/// Returns the cell of a flattened parameter (`part` of host argument `arg`).
std::optional<Cell> part_of(const EvalArg& arg, const MemoryRegion* region, const AttrList& attrs) {
  const std::string_view part = attrs.s(AttrName::component, "value");
  const auto axis = static_cast<std::size_t>(attrs.i(AttrName::axis));
  if (part == "ptr" && region != nullptr) return Cell{.i = region->address};
  if (const auto* t = std::get_if<TensorArg>(&arg)) {
    if (part == "dim") return Cell{.i = t->dims.at(axis)};
    if (part == "stride") return Cell{.i = t->strides.at(axis)};
  }
  if (const auto* c = std::get_if<Cell>(&arg); c != nullptr && part == "value") return *c;
  return std::nullopt;
}

}  // namespace

std::string str(Loc loc) {
  return loc.known() ? fmt::format("{}:{}:{}", loc.file, loc.line, loc.column) : std::string("?");
}

std::string op_at(const Kernel& k, OpId op) {
  const OpData& d = k[op];
  const std::string_view mnemonic = info(d.opcode).mnemonic;
  return d.loc.known() ? fmt::format("{} at {}", mnemonic, str(d.loc)) : std::string(mnemonic);
}

std::string index_str(std::span<const std::int64_t> shape, std::int64_t i) {
  std::string text;
  for (std::size_t d = shape.size(); d-- > 0; i /= shape[d])
    text = fmt::format("{}{}{}", i % shape[d], text.empty() ? "" : ", ", text);
  return "[" + text + "]";
}

EvalFn eval_fn(Opcode op) {
  static constexpr std::array<EvalFn, kOpCount> kTable{
#define ROW(Name, ...) eval_##Name,
#define SIMT_OP(...) eval_elsewhere,
#include "ir/op_rows.h"
  };
  return kTable[static_cast<std::size_t>(op)];
}

Program::Program(Evaluation& evaluation)
    : evaluation_(evaluation), values_(evaluation.kernel.value_count()) {
  bind_params();
}

void Program::bind_params() {
  const auto& params = kernel().params();
  for (std::size_t i = 0; i < params.size(); ++i) {
    TileValue& v = value(params[i].value);
    const EvalArg& arg = evaluation_.args[arg_index(params[i], i)];
    const MemoryRegion* region = evaluation_.memory.region_of_param(i);
    const Type type = kernel().type(params[i].value);
    if (type.is_view()) {
      v.region = region;
    } else if (type.is_pointer() && region != nullptr) {
      v.set_scalar(Cell{.i = region->address});
    } else if (const auto cell = part_of(arg, region, params[i].attrs)) {
      v.set_scalar(*cell);
    } else {
      v.set_scalar(Cell{.i = 0});
      v.add_state(0, kPoison);
    }
  }
}

void Program::start(std::int64_t index) {
  index_ = index;
  clock_.start(static_cast<std::uint32_t>(index));
  asyncs = {};
  placed.clear();
  dropped.clear();
  independent.clear();
  role_tag = 0;
}

void Program::run(std::int64_t index) {
  start(index);
  run_region(kernel().body());
}

void Program::execute(OpId op) {
  values_.resize(kernel().value_count());
  eval_fn(kernel()[op].opcode)(*this, op);
}

OpId Program::run_region(RegionId region) {
  const Kernel& k = kernel();
  for (OpId id = k[region].first; id; id = k[id].next) {
    const Opcode opcode = k[id].opcode;
    if (opcode == Opcode::Yield) return id;
    eval_fn(opcode)(*this, id);
  }
  return OpId();
}

const Cell* Program::dense(Value v) {
  TileValue& t = value(v);
  const auto count = static_cast<std::size_t>(kernel().type(v).count());
  if (t.cells.size() != count) {
    t.cells.resize(count, Cell(t.cells[0]));
    if (!t.states.empty()) t.states.resize(count, std::uint8_t(t.states[0]));
  }
  return t.cells.data();
}

const std::uint8_t* Program::states(Value v, std::size_t slot) {
  const TileValue& t = value(v);
  if (t.is_plain()) return nullptr;
  const Type type = kernel().type(v);
  const auto shape = type.shape();
  const auto count = static_cast<std::size_t>(type.count());
  auto& out = state_scratch_[slot];
  out.assign(count, t.state(0));
  if (t.states.size() > 1) std::ranges::copy(t.states, out.begin());
  if (t.edges.empty()) return out.data();
  std::size_t edge = 0, inner = count;
  for (const std::int64_t extent : shape) {
    const auto n = static_cast<std::size_t>(extent);
    inner /= n;
    for (std::size_t i = 0; i < n; ++i) {
      if (t.edges[edge + i] == 0) continue;
      for (std::size_t first = i * inner; first < count; first += n * inner)
        for (std::size_t j = first; j < first + inner; ++j) out[j] |= kAbsent;
    }
    edge += n;
  }
  return out.data();
}

std::optional<std::int64_t> Program::integer(OpId id, Value operand, std::string_view used_as) {
  const TileValue& v = value(operand);
  const std::uint8_t state = v.state(0);
  if ((state & kPoison) != 0) {
    report_poison(id, "uses", fmt::format("as {}", used_as), v.origin);
    return std::nullopt;
  }
  if ((state & kAbsent) != 0) {
    report(FindingKind::PoisonUse, id, op(id).loc, [&] {
      return fmt::format("{} uses an absent element as {}", info(op(id).opcode).mnemonic, used_as);
    });
    return std::nullopt;
  }
  return v.cells[0].i;
}

bool Evaluation::counts(FindingKind kind, OpId op) {
  for (LocatedFinding& f : found) {
    if (f.op != op || f.finding.kind != kind) continue;
    ++f.finding.count;
    return true;
  }
  return found.size() >= kMaxFindings;
}

bool Program::count_repeat(FindingKind kind, OpId op) {
  const std::lock_guard lock(evaluation_.mutex);
  return evaluation_.counts(kind, op);
}

void Program::add_finding(FindingKind kind, OpId op, Loc loc, std::string text,
                          std::uintptr_t address) {
  const std::lock_guard lock(evaluation_.mutex);
  // Another thread may have added the same finding while the text was formatted.
  if (evaluation_.counts(kind, op)) return;
  evaluation_.found.push_back({op, {kind, std::move(text), loc, coordinates(), 1, address}});
}

void Program::report_poison(OpId id, std::string_view before, std::string_view after, OpId origin) {
  const std::string_view mnemonic = info(op(id).opcode).mnemonic;
  const bool is_division =
      origin && (op(origin).opcode == Opcode::Div || op(origin).opcode == Opcode::Rem);
  if (is_division)
    return report(FindingKind::DivisionByZero, origin, op(origin).loc, [&] {
      return fmt::format("{} {} the result of an integer division by zero {}", op_at(kernel(), id),
                         before, after);
    });
  report(FindingKind::PoisonUse, id, op(id).loc, [&] {
    return fmt::format("{} {} poison {}{}", mnemonic, before, after,
                       origin ? fmt::format(", made by {}", op_at(kernel(), origin)) : "");
  });
}

void Program::report_race(const MemoryRegion& region, const std::byte* address, OpId id,
                          Touch other) {
  report(FindingKind::Race, id, op(id).loc, [&] {
    const auto describe = [&](std::int64_t program, OpId by) {
      const auto c = evaluation_.coordinates(program);
      return fmt::format("{} in program ({}, {}, {})", op_at(kernel(), by), c[0], c[1], c[2]);
    };
    std::string own_text = describe(index_, id),
                other_text = describe(other.program(), OpId(other.op()));
    if (index_ < other.program()) std::swap(own_text, other_text);
    const Memory& m = evaluation_.memory;
    return fmt::format("{} is touched without an order by {} and {}",
                       m.describe(region, m.address_of(region, address)), other_text, own_text);
  });
}

/// Uses the same granularity as the race detector's shadow memory.
void Program::touch_in_steps(const MemoryRegion& region, const std::byte* address, std::size_t size,
                             OpId id, StepUse use) {
  const std::size_t granule = region.shadow->granule;
  for (StepRaces& steps : independent)
    for (std::size_t n = 0; n < size; n += granule) {
      const auto earlier = steps.touch(reinterpret_cast<std::uintptr_t>(address + n), use, id);
      if (!earlier) continue;
      report(FindingKind::StepRace, id, op(id).loc, [&] {
        const Memory& m = evaluation_.memory;
        return fmt::format(
            "{} is touched by {} in one step and by {} in a later one of the {}, "
            "whose steps are declared independent",
            m.describe(region, m.address_of(region, address)), op_at(kernel(), *earlier),
            op_at(kernel(), id), op_at(kernel(), steps.loop()));
      });
    }
}

void Program::touch_read(const MemoryRegion& region, const std::byte* address, std::size_t size,
                         OpId id) {
  last_read = {&region, address, id};
  if (region.shadow == nullptr) return;
  if (!independent.empty()) touch_in_steps(region, address, size, id, StepUse::Read);
  if (const auto other =
          evaluation_.memory.races.read(*region.shadow, address, size, clock_, id.index))
    report_race(region, address, id, *other);
}

void Program::check_released(const MemoryRegion& region, const std::byte* address, std::size_t size,
                             OpId id) {
  const auto element =
      find_released(evaluation_.options.released, reinterpret_cast<std::uintptr_t>(address), size);
  if (!element || count_repeat(FindingKind::ReleasedRead, id)) return;
  const Memory& m = evaluation_.memory;
  add_finding(FindingKind::ReleasedRead, id, op(id).loc,
              fmt::format("reads {}, which was released and has not been written since",
                          m.describe(region, m.address_of(region, address))),
              *element);
}

void Program::touch_write(const MemoryRegion& region, const std::byte* address, std::size_t size,
                          OpId id) {
  ++effects;
  if (region.shadow == nullptr) return;
  if (!independent.empty()) touch_in_steps(region, address, size, id, StepUse::Write);
  if (const auto other =
          evaluation_.memory.races.write(*region.shadow, address, size, clock_, id.index))
    report_race(region, address, id, *other);
}

void Program::report_repeats(OpId id) {
  const auto descends = [](const StoredElement& a, const StoredElement& b) { return a.at >= b.at; };
  if (std::ranges::adjacent_find(stored, descends) != stored.end()) {
    std::ranges::stable_sort(stored, {}, &StoredElement::at);
    const bool updates = updates_elements(kernel(), id);
    const auto repeats = [&](const StoredElement& a, const StoredElement& b) {
      return a.at == b.at && (a.bits != b.bits || (updates && a.is_new));
    };
    if (const auto twice = std::ranges::adjacent_find(stored, repeats); twice != stored.end())
      report(FindingKind::ScatterRepeats, id, op(id).loc, [&] {
        const Memory& m = evaluation_.memory;
        return m.describe(*twice->region, m.address_of(*twice->region, twice->at)) +
               (twice->bits == twice[1].bits ? " is updated twice, and one update is lost"
                                             : " is stored twice, with different values");
      });
  }
  stored.clear();
}

void Program::touch_atomic(const MemoryRegion& region, const std::byte* address, std::size_t size,
                           OpId id, std::string_view sem) {
  last_read = {&region, address, id};
  if (region.shadow == nullptr) return;
  if (!independent.empty()) touch_in_steps(region, address, size, id, StepUse::Atomic);
  RaceDetector& races = evaluation_.memory.races;
  if (sem == "acquire" || sem == "acq_rel") races.acquire(address, clock_);
  if (const auto other = races.atomic(*region.shadow, address, size, clock_, id.index))
    report_race(region, address, id, *other);
  if (sem == "release" || sem == "acq_rel") races.release(address, clock_);
}

}  // namespace tegula::ir::interp
