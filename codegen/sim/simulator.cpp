// The launch: decodes the kernel once and runs the CTAs of the grid, on one or more host threads.
#include "codegen/sim/simulator.h"

#include <fmt/format.h>

#include <atomic>
#include <deque>
#include <exception>
#include <thread>

#include "codegen/sim/cluster.h"
#include "tegula/error.h"

namespace tegula::sim {
namespace {

void check_launch(const ir::Kernel& k, const Grid& grid, std::span<const SimArg> args) {
  const auto refuse = [&](std::string why) {
    throw CompileError(
        Diagnostic{"",
                   fmt::format("kernel {} cannot run on the simulator: {}", k.info.name, why),
                   {},
                   {},
                   ""});
  };
  if (grid[0] % k.info.cluster != 0)
    refuse(fmt::format("{} CTAs do not divide into clusters of {}", grid[0], k.info.cluster));
  if (k.info.threads < 1 || k.info.threads > 1024)
    refuse(fmt::format("{} threads a CTA", k.info.threads));
  if (args.size() != k.params().size())
    refuse(fmt::format("{} arguments for {} parameters", args.size(), k.params().size()));
  for (std::size_t n = 0; n < args.size(); ++n) {
    const ir::Type t = k.type(k.params()[n].value);
    const bool is_map = std::holds_alternative<const codegen::TensorMap*>(args[n]);
    if (is_map != t.is(ir::TypeKind::TensorMap))
      refuse(fmt::format("argument {} does not fit a parameter of type {}", n, t.str()));
    if (std::holds_alternative<double>(args[n]) &&
        !(t.is_scalar() && !t.is_pointer() && is_float(t.dtype())))
      refuse(fmt::format("argument {} is a float, its parameter a {}", n, t.str()));
  }
}

/// What one host thread made of its CTAs.
struct Share {
  explicit Share(Launch l) : launch(std::move(l)) {}
  Launch launch;
  std::vector<std::pair<std::int64_t, std::vector<Finding>>> found;  ///< by CTA number
  std::exception_ptr error;
};

/// Runs clusters in turns: another one is begun only when those begun have used up a turn without
/// ending, so that a CTA may wait for a later one through global memory.
void run_share(Share& share, std::atomic<std::int64_t>& next, std::int64_t clusters) {
  constexpr std::int64_t kTurn = 100'000;  // instructions
  const int size = share.launch.program.kernel().info.cluster;
  std::deque<std::unique_ptr<Cluster>> live;
  const auto begin = [&] {
    const std::int64_t n = next < clusters ? next++ : clusters;
    if (n >= clusters) return false;
    live.push_back(std::make_unique<Cluster>(share.launch, n * size));
    return true;
  };
  try {
    while (!live.empty() || begin()) {
      std::unique_ptr<Cluster> turn = std::move(live.front());
      live.pop_front();
      if (turn->run(kTurn)) {
        live.push_back(std::move(turn));
        if (static_cast<int>(live.size()) < share.launch.options.resident) begin();
        continue;
      }
      auto found = turn->finish();
      std::move(found.begin(), found.end(), std::back_inserter(share.found));
    }
  } catch (...) {
    share.error = std::current_exception();
    next = clusters;
  }
}

void add_counters(Counters& to, std::vector<AccessCounter>& accesses, const Launch& from) {
  to.instructions += from.counters.instructions;
  to.ctas += from.counters.ctas;
  to.wgmma_steps += from.counters.wgmma_steps;
  to.tma_bytes += from.counters.tma_bytes;
  for (std::size_t n = 0; n < accesses.size(); ++n) {
    accesses[n].requests += from.accesses[n].requests;
    accesses[n].wavefronts += from.accesses[n].wavefronts;
    accesses[n].ideal_wavefronts += from.accesses[n].ideal_wavefronts;
    accesses[n].sectors += from.accesses[n].sectors;
    accesses[n].ideal_sectors += from.accesses[n].ideal_sectors;
  }
}

/// Equal findings of different CTAs (kind and both places) become one.
void merge(std::vector<Finding>& all, std::vector<Finding> found) {
  for (Finding& f : found) {
    const auto same = std::find_if(all.begin(), all.end(), [&](const Finding& o) {
      return o.kind == f.kind && o.loc == f.loc && o.other == f.other && f.loc.known();
    });
    if (same == all.end())
      all.push_back(std::move(f));
    else
      same->count += f.count;
  }
}

}  // namespace

Report simulate(const ir::Kernel& kernel, Grid grid, std::span<const SimArg> args,
                const SimOptions& options) {
  check_launch(kernel, grid, args);
  const Program program(kernel);
  GlobalMemory global(options);
  const std::int64_t clusters = std::int64_t{grid[0]} * grid[1] * grid[2] / kernel.info.cluster;
  std::vector<AccessCounter> accesses(program.code().size());

  std::vector<std::unique_ptr<Share>> shares;
  const std::int64_t hosts =
      std::clamp<std::int64_t>(options.threads, 1, std::max<std::int64_t>(1, clusters));
  for (std::int64_t n = 0; n < hosts; ++n)
    shares.push_back(
        std::make_unique<Share>(Launch{program, options, grid, args, global, {}, accesses}));
  std::atomic<std::int64_t> next{0};
  std::vector<std::thread> threads;
  for (std::size_t n = 1; n < shares.size(); ++n)
    threads.emplace_back(run_share, std::ref(*shares[n]), std::ref(next), clusters);
  run_share(*shares[0], next, clusters);
  for (std::thread& t : threads) t.join();

  Report report;
  std::vector<std::pair<std::int64_t, std::vector<Finding>>> found;
  for (auto& share : shares) {
    if (share->error) std::rethrow_exception(share->error);
    add_counters(report.counters, accesses, share->launch);
    std::move(share->found.begin(), share->found.end(), std::back_inserter(found));
  }
  std::sort(found.begin(), found.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  for (auto& [cta, list] : found) merge(report.findings, std::move(list));
  for (std::size_t n = 0; n < accesses.size(); ++n) {
    const Instr& i = program.code()[n];
    if (accesses[n].requests == 0) continue;
    accesses[n].loc = i.op->loc;
    accesses[n].op = ir::info(i.op->opcode).mnemonic;
    report.counters.accesses.push_back(accesses[n]);
  }
  return report;
}

}  // namespace tegula::sim
