// Launching and describing compiled kernels.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <limits>

#include "ir/opt_command.h"
#include "ir/text.h"
#include "runtime/jit_steps.h"
#include "runtime/workspace.h"
#include "support/env.h"
#include "support/text.h"
#include "tegula/error.h"

namespace tegula::runtime {
namespace {

constexpr std::size_t kMaxBlockBytes = 4096;  // what a kernel's parameters may take

/// One way to mend what the code stands for.
std::string hint_of(std::string_view code) {
  if (code == "T1301")
    return "order them by release and acquire, by last_arriver, or by another launch";
  if (code == "T1306")
    return "store every element; else take the argument as InOut, or say .partial() of it in the "
           "kernel";
  return {};
}

template <class Findings>
[[noreturn]] void throw_findings(const std::string& kernel, const char* who,
                                 const Findings& findings) {
  std::vector<Diagnostic> all;
  for (const auto& f : findings)
    all.push_back({std::string(code(f.kind)),
                   fmt::format("kernel {} on {}: {}", kernel, who, f.what()),
                   f.loc,
                   {},
                   hint_of(code(f.kind))});
  throw ProgramError(std::move(all));
}

Extent3 checked_grid(const std::string& kernel, const std::array<std::int64_t, 3>& grid) {
  constexpr std::int64_t kMax[3] = {std::numeric_limits<std::int32_t>::max(), 65535, 65535};
  for (int i = 0; i < 3; ++i)
    if (grid[i] < 0 || grid[i] > kMax[i]) [[unlikely]]
      throw CompileError(
          Diagnostic{"",
                     fmt::format("kernel {}: grid extent {} along axis {} is outside 0..{}", kernel,
                                 grid[i], i, kMax[i]),
                     {},
                     {},
                     "use larger blocks"});
  return {static_cast<unsigned>(grid[0]), static_cast<unsigned>(grid[1]),
          static_cast<unsigned>(grid[2])};
}

void run_on_cpu(const CompiledKernel& k, std::span<const LaunchArg> args) {
  ir::EvalOptions options;
  options.loop_limit = env().loop_limit;
  options.find_unstored = true;
  const auto report = ir::evaluate(k.tile, eval_args(k.tile, args), options);
  if (!report.clean()) throw_findings(k.tile.info.name, "cpu", report.findings);
}

/// The memory of the arguments, by name.
void add_ranges(sim::SimOptions& options, const ir::Kernel& tile, std::span<const LaunchArg> args) {
  const std::vector<ir::EvalArg> values = eval_args(tile, args);
  for (std::size_t i = 0; i < args.size(); ++i) {
    if (!args[i].tensor) continue;
    const ByteRange r = args[i].tensor->byte_range();
    sim::GlobalRange range{reinterpret_cast<const void*>(r.begin),
                           reinterpret_cast<const void*>(r.end)};
    if (i < values.size()) {
      const ir::Type type = tile.type(tile.params()[i].value);
      range.name = tile.params()[i].name;
      if (const auto* tensor = std::get_if<ir::TensorArg>(&values[i])) range.tensor = *tensor;
      range.must_be_stored = type.is_view() && type.view_facts().access == ir::Access::Out &&
                             tile.params()[i].attrs.i(ir::AttrName::partial) != 1;
      if (type.is_pointer())
        range.tensor = ir::TensorArg{args[i].tensor->data(),
                                     {static_cast<std::int64_t>(r.end - r.begin)},
                                     {1},
                                     type.dtype()};
    }
    options.ranges.push_back(std::move(range));
  }
}

void run_on_sim(const CompiledKernel& k, std::span<const LaunchArg> args, const Extent3& grid) {
  sim::SimOptions options;
  options.threads = 2;
  // A warp takes as long for an iteration as the interpreter for a hundred.
  options.loop_limit = std::max<std::int64_t>(1, env().loop_limit / 100);
  add_ranges(options, k.tile, args);
  std::vector<codegen::TensorMap> maps;
  std::uint32_t counter = 0;
  options.ranges.push_back({&counter, &counter + 1});
  const auto report = sim::simulate(
      k.simt, {static_cast<int>(grid[0]), static_cast<int>(grid[1]), static_cast<int>(grid[2])},
      k.recipe.sim_args(args, maps, &counter), options);
  if (!report.clean()) throw_findings(k.name, "sim", report.findings);
  if (counter != 0)
    throw InternalError(
        fmt::format("kernel {} leaves its counter of tiles at {}", k.name, counter));
}

std::uint32_t* counter_of(const CompiledKernel& k, const Stream& stream) {
  return k.recipe.needs_counter() ? acquire_tile_counter(stream) : nullptr;
}

}  // namespace

void CompiledKernel::prepare(const Stream& stream) const {
  if (device.kind == DeviceKind::cuda) counter_of(*this, stream);
}

void CompiledKernel::launch(const Stream& stream, std::span<const LaunchArg> args) const {
  if (device.kind == DeviceKind::cpu) return run_on_cpu(*this, args);
  const Extent3 grid = checked_grid(name, recipe.grid(args));
  if (grid[0] == 0 || grid[1] == 0 || grid[2] == 0) return;
  if (device.kind == DeviceKind::sim) return run_on_sim(*this, args, grid);
  alignas(64) std::byte block[kMaxBlockBytes];
  recipe.pack(args, block, counter_of(*this, stream));
  gpu->launch(static_cast<cu::Stream>(stream.handle()), block, grid);
}

std::string CompiledKernel::dump(std::string_view verb) const {
  if (verb == "key") return key_text;
  if (verb == "trace") return ir::print(tile);
  if (verb == "optimize") return ir::print(simt);
  if (verb == "emit") return emitted.source.empty() ? emitted.ptx : emitted.source;
  if (verb == "ptx") return emitted.ptx;
  if (verb == "launch") return recipe.str();
  if (verb == "assemble") {
    std::string text = fmt::format(
        "registers {}\nshared {}\nspills {} {}\nstack {}\ncubin {} bytes\n", report.registers,
        simt.info.smem_bytes, report.spill_stores, report.spill_loads, report.stack, cubin.size());
    for (const std::string& w : report.warnings) text += w + "\n";
    return text;
  }
  throw CompileError(Diagnostic{"",
                                fmt::format("no stage is called '{}'", verb),
                                {},
                                {},
                                "key, trace, optimize, emit, ptx, assemble or launch"});
}

// Limits of compute capability 9.0, as the CUDA C programming guide has them.
int CompiledKernel::ctas_per_sm() const {
  const int threads = std::max(32, simt.info.threads);
  const int by_threads = 2048 / threads;
  const int registers = (report.registers + 7) / 8 * 8 * threads;
  const int by_registers = report.registers ? 65536 / std::max(1, registers) : 32;
  const auto by_shared = static_cast<int>(233472 / (simt.info.smem_bytes + 1024));
  return std::min({32, by_threads, by_registers, by_shared});
}

std::string CompiledKernel::explain() const {
  std::string out = fmt::format("kernel {} for {} by {} ({})\n", name, device.str(),
                                runtime::name(backend), target);
  out += plan.str() + "\n";
  out += fmt::format("threads {}, shared memory {} bytes", simt.info.threads, simt.info.smem_bytes);
  if (report.registers)
    out += fmt::format(", registers {}, spills {}, CTAs per SM {}", report.registers,
                       report.spill_stores + report.spill_loads, ctas_per_sm());
  out += "\n";
  for (const Warning& w : warnings) out += w.str() + "\n";
  for (const ir::Remark& r : remarks) out += r.str() + "\n";
  for (const VerbTiming& t : timings) out += fmt::format("{}: {:.2f} ms\n", t.verb, t.ms);
  return out;
}

namespace {

/// The traced kernel under a line by which `tegula opt` does what was done here.
std::string replayable_trace(const CompiledKernel& k) {
  ir::Kernel tile = ir::clone(k.tile);
  tile.info.target = k.target;
  ir::PassContext context;
  context.plan = k.plan;
  context.keep_checks = k.device.kind == DeviceKind::sim;
  std::vector<std::string_view> passes;
  for (const ir::PassTiming& pass : k.passes) passes.push_back(pass.name);
  return ir::opt_comment(ir::opt_command(context), fmt::format("{}", fmt::join(passes, ","))) +
         ir::print(tile);
}

}  // namespace

void write_dumps(const CompiledKernel& k) {
  const std::string& spec = env().dump;
  const auto colon = spec.find(':');
  if (spec.empty() || colon == std::string::npos) return;
  const std::string verbs = spec.substr(0, colon);
  const std::filesystem::path folder = std::filesystem::path(spec.substr(colon + 1)) / k.name;
  std::filesystem::create_directories(folder);
  static constexpr std::pair<const char*, const char*> kFiles[] = {
      {"key", "00-key.txt"},   {"trace", "01-trace.tir"}, {"optimize", "02-optimize.tir"},
      {"emit", "03-emit.txt"}, {"ptx", "04.ptx"},         {"launch", "06-launch.txt"}};
  for (const auto& [verb, file] : kFiles)
    if (verbs == "all" || verbs.find(verb) != std::string::npos) {
      const bool is_replayable = verb == std::string_view("trace") && !k.passes.empty();
      const std::string text = is_replayable ? replayable_trace(k) : k.dump(verb);
      // A stage that a device has no use for has no file: nothing is emitted for cpu and sim.
      if (!text.empty()) write_file(folder / file, text);
    }
  if (!k.cubin.empty() && (verbs == "all" || verbs.find("assemble") != std::string::npos))
    write_file(folder / "05.cubin", std::string_view(k.cubin.data(), k.cubin.size()));
}

}  // namespace tegula::runtime
