// Launches and describes compiled kernels.
#include "runtime/compiled_kernel.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "ir/analysis/scatter_update.h"
#include "ir/eval/absent_loads.h"
#include "ir/schedule/carried_out.h"
#include "ir/schedule/judge.h"
#include "ir/schedule/text.h"
#include "ir/text.h"
#include "runtime/reachable_memory.h"
#include "runtime/records.h"
#include "runtime/released_memory.h"
#include "runtime/warnings.h"
#include "support/env.h"
#include "support/errors.h"
#include "tegula/profiler_range.h"
#include "tegula/released_read.h"

namespace tegula::runtime {
namespace {

/// Returns a way to fix the error with this code, or "".
std::string hint_of(std::string_view code) {
  if (code == "T1301")
    return "order them by release and acquire, by arrive_and_test_last, or by another launch";
  if (code == "T1306")
    return "give the value everywhere, fill_absent(x(..), 0) of what is read, or store every "
           "element; to keep the old ones there, take the argument as InOut or call .partial()";
  if (code == "T1317")
    return "fill what is accumulated: fill_absent(x(..), 0) for sums and dots, -inf for a maximum, "
           "inf "
           "for a minimum; or accumulate with += or in a loop over steps, which keep elements";
  if (code == "T1318")
    return "name the dimensions in kernel(..).named(\"a[M, K]\", \"b[K, N]\"), which refuses such "
           "calls; if the zeros are meant, write fill_absent(b(..), 0)";
  if (code == "T1302")
    return "index inside the tensor, or mask the access; make other host memory known by "
           "Tensor::borrow while the kernel runs";
  if (code == "T1305")
    return "pass arguments for which the assumption holds; the last argument of steps(lo, hi, "
           "block, by) must be positive";
  if (code == "T1314")
    return "make the tensor long enough, or give the element a value: fill_absent(x(i), 0), or "
           "where(i < x.dim(0), x(i), 0)";
  if (code == "T1315") return "wait with an atomic: wait_until, or atomic_add(p, 0) that acquires";
  if (code == "T1693")
    return "release pages when no request needs them any more, store a page's rows before they are "
           "read, or give entries of pages without contents the number -1";
  if (code == "T1319")
    return "use distinct indices, or combine the values: atomic_add, or scatter with Combine::add";
  return {};
}

/// Returns " (x is [64, 64], w is [32, 64])" for the tensors whose extents the text names by dim().
std::string extents_of(const std::string& text, const ir::Kernel& tile,
                       std::span<const LaunchArg> args) {
  std::vector<std::string> all;
  for (std::size_t i = 0; i < std::min(args.size(), tile.params().size()); ++i)
    if (const std::string& name = tile.params()[i].name;
        args[i].tensor && text.find(" " + name + ".dim(") != std::string::npos)
      all.push_back(fmt::format("{} is [{}]", name, fmt::join(args[i].tensor->shape(), ", ")));
  return all.empty() ? "" : fmt::format(" ({})", fmt::join(all, ", "));
}

template <class Findings>
[[noreturn]] void throw_findings(const std::string& kernel, const char* who,
                                 const Findings& findings, const ir::Kernel& tile,
                                 std::span<const LaunchArg> args) {
  std::vector<Diagnostic> all;
  for (const auto& f : findings)
    all.push_back({std::string(code(f.kind)),
                   fmt::format("kernel {} on {}: {}{}", kernel, who, f.what(),
                               extents_of(f.text, tile, args)),
                   f.loc,
                   {},
                   hint_of(code(f.kind))});
  const auto released =
      std::ranges::find(findings, "T1693", [](const auto& f) { return code(f.kind); });
  if (released != std::ranges::end(findings))
    throw ReleasedRead(std::move(all), static_cast<std::uintptr_t>(released->address));
  throw ProgramError(std::move(all));
}

/// Returns the stores to parameter `i` of a kernel in tile form.
std::vector<sim::StoreSource> stores_to(const ir::Kernel& tile, std::span<const LaunchArg> args,
                                        std::size_t i) {
  std::vector<sim::StoreSource> stores;
  ir::walk(tile, tile.body(), [&](ir::OpId op) {
    const ir::OpData& d = tile[op];
    if (d.opcode == ir::Opcode::StoreView && d.operands[0] == tile.params()[i].value)
      stores.push_back({d.loc, [&tile, args, op, i](std::span<const std::int64_t> index) {
                          return ir::left_out(tile, eval_args(tile, args), op,
                                              tile.params()[i].name, index);
                        }});
  });
  return stores;
}

/// Adds the memory ranges of the arguments, with their names.
void add_ranges(sim::SimOptions& options, const ir::Kernel& tile, std::span<const LaunchArg> args) {
  const std::vector<ir::EvalArg> values = eval_args(tile, args);
  for (std::size_t i = 0; i < args.size(); ++i) {
    if (!args[i].tensor) {
      const auto* address = i < values.size() ? std::get_if<ir::PointerArg>(&values[i]) : nullptr;
      if (address && address->begin != address->end)
        options.ranges.push_back(
            {address->begin, address->end,
             is_record_buffer(args[i].bits) ? "the buffer of prints" : tile.params()[i].name});
      continue;
    }
    const ByteRange r = args[i].tensor->byte_range();
    sim::GlobalRange range{reinterpret_cast<const void*>(r.begin),
                           reinterpret_cast<const void*>(r.end)};
    if (i < values.size()) {
      const ir::Type type = tile.type(tile.params()[i].value);
      range.name = tile.params()[i].name;
      if (const auto* tensor = std::get_if<ir::TensorArg>(&values[i])) range.tensor = *tensor;
      range.must_be_stored = type.is_view() && type.view_facts().access == ir::Access::Out &&
                             tile.params()[i].attrs.i(ir::AttrName::partial) != 1;
      if (range.must_be_stored) range.stores = stores_to(tile, args, i);
      if (type.is_pointer())
        range.tensor = ir::TensorArg{args[i].tensor->data(),
                                     {static_cast<std::int64_t>(r.end - r.begin)},
                                     {1},
                                     type.dtype()};
    }
    options.ranges.push_back(std::move(range));
  }
}

/// Races in shared memory at a `scatter` of a tile are equal indices, a fault of the kernel's
/// author.
void name_scatters(const ir::Kernel& tile, std::vector<sim::Finding>& findings) {
  for (sim::Finding& f : findings) {
    if (f.kind != sim::Detector::LaneRace && f.kind != sim::Detector::SharedRace) continue;
    const bool is_scatter = ir::any_op(tile, tile.body(), [&](ir::OpId op) {
      return tile[op].opcode == ir::Opcode::Scatter && tile[op].loc == f.loc;
    });
    if (!is_scatter) continue;
    f.kind = sim::Detector::ScatterRepeats;
    f.text = "two elements of a scatter are stored at one index";
  }
}

/// Returns the number of CTAs that the simulator launches for a persistent kernel: few, so that
/// each computes several tiles even for small grids.
std::int64_t simulated_ctas(const Artefact& a) {
  constexpr std::int64_t kSimulated = 4;
  if (!a.persistent) return kAnyCtas;
  return a.cluster * std::max<std::int64_t>(1, kSimulated / a.cluster);
}

}  // namespace

/// Node of a list that grows only at its head, so that readers need no lock.
struct CompiledKernel::OnGpu {
  LoadedArtefact artefact;
  std::unique_ptr<const OnGpu> next;
};

CompiledKernel::CompiledKernel(Compilation of, Artefact artefact)
    : device(of.device),
      tile(std::move(of.tile)),
      planned(std::move(of.planned)),
      plan(of.plan),
      remarks(std::move(of.remarks)),
      passes(std::move(of.passes)),
      timings(std::move(of.timings)),
      warnings(warnings_of({artefact, device.kind, tile, of.simt, remarks})),
      artefact_(std::make_shared<const Artefact>(std::move(artefact))),
      source_(of.backend == Backend::Llvm ? std::move(of.emitted.source) : std::string()),
      simt_text_(std::move(of.simt_text)),
      simt_(std::move(of.simt)) {}

CompiledKernel::~CompiledKernel() = default;

const ir::Kernel& CompiledKernel::simt() const {
  std::call_once(parsed_, [&] {
    if (!simt_text_.empty()) simt_ = ir::parse(simt_text_, "a kernel of the disk cache");
  });
  return simt_;
}

const CompiledKernel::OnGpu* CompiledKernel::find(int ordinal) const {
  const OnGpu* at = newest_.load(std::memory_order_acquire);
  while (at && at->artefact.ordinal() != ordinal) at = at->next.get();
  return at;
}

const LoadedArtefact& CompiledKernel::on(int ordinal) const {
  if (const OnGpu* at = find(ordinal)) [[likely]]
    return at->artefact;
  const std::lock_guard lock(loading_);
  if (const OnGpu* at = find(ordinal)) return at->artefact;
  std::unique_ptr<OnGpu> made(new OnGpu{LoadedArtefact(artefact_, ordinal), nullptr});
  made->next = std::move(loaded_);
  loaded_ = std::move(made);
  newest_.store(loaded_.get(), std::memory_order_release);
  return loaded_->artefact;
}

void CompiledKernel::run_on_cpu(std::span<const LaunchArg> args) const {
  ir::EvalOptions options;
  options.loop_limit = env().loop_limit;
  options.find_unstored = true;
  const auto reachable = reachable_memory(tile);
  options.reachable = reachable;
  const auto released = released_memory();
  options.released = released;
  const auto found = ir::evaluate(tile, eval_args(tile, args), options);
  read_records();
  if (!found.clean()) throw_findings(tile.info.name, "cpu", found.findings, tile, args);
}

void CompiledKernel::run_on_sim(std::span<const LaunchArg> args) const {
  const Extent3 grid =
      checked_grid(artefact_->recipe, args, simulated_ctas(*artefact_), artefact_->name);
  if (grid[0] == 0 || grid[1] == 0 || grid[2] == 0) return;
  sim::SimOptions options;
  options.threads = 2;
  // The simulator runs one iteration of a warp in the time of a hundred interpreted iterations.
  options.loop_limit = std::max<std::int64_t>(1, env().loop_limit / 100);
  add_ranges(options, tile, args);
  for (const ir::HostMemory& m : reachable_memory(tile))
    options.ranges.push_back({reinterpret_cast<const void*>(m.begin),
                              reinterpret_cast<const void*>(m.begin + m.bytes),
                              fmt::format("the tensor at {:#x}", m.begin)});
  ir::walk(tile, tile.body(), [&](ir::OpId op) {
    if (ir::updates_elements(tile, op)) options.updates.push_back(tile[op].loc);
  });
  const auto released = released_memory();
  options.released = released;
  std::vector<codegen::TensorMap> maps;
  std::array<std::uint32_t, 2> counters{};
  options.ranges.push_back({counters.data(), counters.data() + counters.size()});
  auto found = sim::simulate(
      simt(), {static_cast<int>(grid[0]), static_cast<int>(grid[1]), static_cast<int>(grid[2])},
      sim_args(artefact_->recipe, args, maps, counters.data()), options);
  read_records();
  name_scatters(tile, found.findings);
  if (!found.clean()) throw_findings(artefact_->name, "sim", found.findings, tile, args);
  if (counters != std::array<std::uint32_t, 2>{})
    throw InternalError(fmt::format("kernel {} leaves its counters at {} and {}", artefact_->name,
                                    counters[0], counters[1]));
}

void CompiledKernel::prepare(const Stream& stream) const {
  if (device.kind == DeviceKind::cuda) on(stream.device().index).prepare(stream);
}

void CompiledKernel::launch(const Stream& stream, std::span<const LaunchArg> args) const {
  if (device.kind == DeviceKind::cuda) return on(stream.device().index).launch(stream, args);
  const ProfilerRange range(tile.info.name.c_str());
  if (device.kind == DeviceKind::cpu) return run_on_cpu(args);
  run_on_sim(args);
}

/// Returns the report about the machine code: the driver's if it compiled the PTX, else the
/// assembler's.
const AssembleReport& CompiledKernel::report() const {
  const OnGpu* at = newest_.load(std::memory_order_acquire);
  return at && artefact_->kind == ImageKind::ptx ? at->artefact.report() : artefact_->report;
}

std::vector<Warning> CompiledKernel::warnings_on(Device where) const {
  std::vector<Warning> found = warnings;
  if (where.kind != DeviceKind::cuda || artefact_->kind != ImageKind::ptx) return found;
  for (Warning& w : warnings_of_report(artefact_->name, on(where.index).report()))
    found.push_back(std::move(w));
  return found;
}

std::string CompiledKernel::dump(std::string_view verb) const {
  if (verb == "key") return artefact_->key_text;
  if (verb == "trace") return ir::print(tile);
  if (verb == "optimize") return ir::print(simt());
  if (verb == "emit") return source_.empty() ? artefact_->code : source_;
  if (verb == "ptx") return ptx_of(*artefact_);
  if (verb == "launch") return artefact_->recipe.str();
  if (verb == "assemble")
    return assembler_text(report(), artefact_->shared_bytes,
                          artefact_->kind == ImageKind::cubin ? artefact_->image.size() : 0);
  fail(ErrorId::unknown_stage, {}, {}, verb);
}

namespace {

/// Returns the Schedule that the passes execute for a plan and the author's Schedule, if any, and
/// the rules that it violates. The plan of a cache entry that a bug or another program wrote may
/// have no Schedule; the reason is returned then.
std::string schedule_text(const ir::Kernel& traced, const ir::Plan& plan,
                          const ir::PlanRequest& planned, ir::Target target) try {
  ir::Kernel tile = ir::clone(traced);
  tile.info.target = target;
  ir::PassContext context;
  context.planned = planned;
  context.plan = plan;
  // The passes may have cleared `wgmma` in the recorded plan although its other fields come from a
  // plan with wgmma.
  context.plan->wgmma |= plan.producer_warps > 0 || plan.persistent;
  const ir::CarriedOut done = ir::schedule_carried_out(tile, context);
  std::string out = ir::print(done.schedule);
  const ir::Verdict verdict = ir::judge(done.machine, ir::Graph(done.machine), done.schedule);
  for (const ir::Reason& reason : verdict.reasons) out += reason.str() + "\n";
  return out;
} catch (const CompileError& e) {
  return fmt::format("this plan has no Schedule: {}\n", e.diagnostic().message);
}

/// Returns each remark with the number of its repetitions, without the plan, which explain() prints
/// on its own line.
std::string remarks_text(const std::vector<ir::Remark>& remarks) {
  std::vector<std::string> lines;
  std::map<std::string, int> counts;
  bool has_guards = false;
  for (const ir::Remark& r : remarks) {
    if (r.pass == "plan" && r.reason == "plan") continue;
    has_guards |= r.reason == "guard kept";
    const std::string line = r.str();
    if (++counts[line] == 1) lines.push_back(line);
  }
  std::string out;
  for (const std::string& line : lines)
    out += counts[line] == 1 ? line + "\n" : fmt::format("{} ({} times)\n", line, counts[line]);
  if (has_guards)
    out +=
        "hint: a guard is a bounds check. It is kept where the view's extent is not known to be a "
        "multiple of the tile's: compile for the extent with x.static_dim(axis), or use a tile "
        "that divides 16\n";
  return out;
}

}  // namespace

std::string CompiledKernel::explain() const {
  const Artefact& a = *artefact_;
  const bool is_absent = device.kind == DeviceKind::cuda && Device::cuda_count() == 0;
  std::string out = fmt::format("kernel {} for {} by {} ({})\n", a.name,
                                is_absent ? "a GPU that is not present" : device.str(),
                                runtime::name(a.backend), a.target.name());
  out += plan.str() + "\n";
  if (device.kind != DeviceKind::cpu && tile.info.form == ir::Form::Tile)
    out += schedule_text(tile, plan, planned, a.target);
  out += fmt::format("threads {}, shared memory {} bytes", a.threads, a.shared_bytes);
  if (const AssembleReport& r = report(); r.registers)
    out += fmt::format(", registers {}, spills {}, CTAs per SM {}", r.registers,
                       r.spill_stores + r.spill_loads, ctas_per_sm(a, r));
  out += "\n";
  for (const Warning& w : warnings) out += w.str() + "\n";
  out += remarks_text(remarks);
  for (const VerbTiming& t : timings) out += fmt::format("{}: {:.2f} ms\n", t.verb, t.ms);
  for (const OnGpu* at = newest_.load(std::memory_order_acquire); at; at = at->next.get())
    out += fmt::format("launch: loaded on cuda:{} in {:.2f} ms\n", at->artefact.ordinal(),
                       at->artefact.load_ms());
  return out;
}

}  // namespace tegula::runtime
