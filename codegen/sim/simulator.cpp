// The launch: decodes the kernel once and runs the CTAs of the grid on one or more host threads.
#include "codegen/sim/simulator.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>

#include "codegen/sim/cluster.h"
#include "codegen/sim/global_roots.h"
#include "tegula/error.h"

namespace tegula::sim {
namespace {

void check_launch(const ir::Kernel& k, const Grid& grid, std::span<const SimArg> args) {
  const auto refuse = [&](std::string why) {
    throw InternalError(fmt::format("kernel {} cannot run on the simulator: {}", k.info.name, why));
  };
  if (grid[0] % k.info.cluster != 0)
    refuse(fmt::format("{} CTAs do not divide into clusters of {}", grid[0], k.info.cluster));
  if (k.info.threads < 1 || k.info.threads > 1024)
    refuse(fmt::format("{} threads per CTA", k.info.threads));
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

/// Results of the CTAs of one host thread.
struct HostThreadWork {
  explicit HostThreadWork(Launch l) : launch(std::move(l)) {}
  Launch launch;
  std::vector<std::pair<std::int64_t, std::vector<Finding>>> found;  ///< by CTA number
  std::exception_ptr error;
};

/// Distinguishes deadlocked clusters from clusters that wait for others on any host thread.
class Standstill {
 public:
  explicit Standstill(std::size_t works) : waits_(works, kRuns) {}

  /// Records that all clusters of a host thread have spun since memory last changed. Returns true
  /// if those of all other host threads have, too.
  bool is_over(std::size_t work, std::uint64_t change, const GlobalMemory& memory) {
    const std::lock_guard lock(mutex_);
    waits_[work] = change;
    over_ = over_ || (std::ranges::all_of(
                          waits_, [&](std::uint64_t w) { return w == kDone || w == change; }) &&
                      memory.changes() == change);
    return over_;
  }
  void runs(std::size_t work) { note(work, kRuns); }
  void is_done(std::size_t work) { note(work, kDone); }

 private:
  static constexpr std::uint64_t kRuns = ~std::uint64_t{0}, kDone = kRuns - 1;
  void note(std::size_t work, std::uint64_t what) {
    const std::lock_guard lock(mutex_);
    waits_[work] = what;
  }
  std::mutex mutex_;
  std::vector<std::uint64_t> waits_;  ///< number of memory changes that each host thread has seen
  bool over_ = false;
};

/// The clusters that one host thread runs alternately. It starts another one only when those
/// started have used up their instructions without finishing, so that a CTA may wait for a later
/// one through global memory.
class Turns {
 public:
  Turns(HostThreadWork& work, std::atomic<std::int64_t>& next, std::int64_t clusters)
      : work_(work), next_(next), clusters_(clusters) {}

  void run(Standstill& standstill, std::size_t number) {
    while (!live_.empty() || begin()) {
      const std::uint64_t change = memory().changes();
      if (!all_spin(change) || (live_.size() < kMaxWaiting && begin())) {
        one_turn();
        continue;
      }
      if (standstill.is_over(number, change, memory())) return give_up();
      std::this_thread::yield();
      if (memory().changes() != change) standstill.runs(number);
    }
  }

 private:
  static constexpr std::int64_t kTurn = 100'000;   // instructions
  static constexpr std::size_t kMaxWaiting = 256;  // clusters started while all wait
  struct Live {
    std::unique_ptr<Cluster> cluster;
    std::optional<std::uint64_t> spun_at;  ///< number of memory changes seen when it last spun
  };

  const GlobalMemory& memory() const { return work_.launch.global; }

  /// The caller reads the number of changes once: another host thread may change memory meanwhile.
  bool all_spin(std::uint64_t change) const {
    return std::ranges::all_of(live_, [&](const Live& l) { return l.spun_at == change; });
  }

  bool begin() {
    const std::int64_t n = next_ < clusters_ ? next_++ : clusters_;
    if (n >= clusters_) return false;
    const int size = work_.launch.program.kernel().info.cluster;
    live_.push_front({std::make_unique<Cluster>(work_.launch, n * size), {}});
    return true;
  }

  void one_turn() {
    Live now = std::move(live_.front());
    live_.pop_front();
    const std::uint64_t before = memory().changes();
    const CtaStatus turn = now.cluster->run(kTurn);
    if (turn == CtaStatus::Finished) return end(*now.cluster);
    const bool in_vain = turn == CtaStatus::Spinning && memory().changes() == before;
    now.spun_at = in_vain ? std::optional(before) : std::nullopt;
    live_.push_back(std::move(now));
    if (static_cast<int>(live_.size()) < work_.launch.options.resident) begin();
  }

  void end(Cluster& cluster) {
    auto found = cluster.finish();
    std::move(found.begin(), found.end(), std::back_inserter(work_.found));
  }

  void give_up() {
    for (Live& l : live_) {
      l.cluster->report_spin();
      end(*l.cluster);
    }
    live_.clear();
    next_ = clusters_;
  }

  HostThreadWork& work_;
  std::atomic<std::int64_t>& next_;
  std::int64_t clusters_;
  std::deque<Live> live_;
};

void run_clusters(HostThreadWork& work, std::size_t number, Standstill& standstill,
                  std::atomic<std::int64_t>& next, std::int64_t clusters) {
  try {
    Turns(work, next, clusters).run(standstill, number);
  } catch (...) {
    work.error = std::current_exception();
    next = clusters;
  }
  standstill.is_done(number);
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

/// Merges equal findings of different CTAs (kind and both places).
void merge(std::vector<Finding>& all, std::vector<Finding> found) {
  for (Finding& f : found) {
    const auto known = std::find_if(all.begin(), all.end(), [&](const Finding& o) {
      return o.kind == f.kind && o.loc == f.loc && o.other == f.other && f.loc.known();
    });
    if (known == all.end())
      all.push_back(std::move(f));
    else
      known->count += f.count;
  }
}

}  // namespace

namespace {

bool watches_memory(const DetectorSet& detectors) {
  using enum Detector;
  return detectors.has(ProgramRace) || detectors.has(GlobalRace) || detectors.has(ReleaseEarly) ||
         detectors.has(ScopeRace) || detectors.has(GlobalProxy) || detectors.has(BulkOrder) ||
         detectors.has(WaitPlain);
}

/// Returns true if every CTA finished.
bool ended(const Report& r) {
  using enum Detector;
  return !r.find(Deadlock) && !r.find(Watchdog) && !r.find(Trapped);
}

}  // namespace

Report simulate(const ir::Kernel& kernel, Grid grid, std::span<const SimArg> args,
                const SimOptions& options) {
  check_launch(kernel, grid, args);
  const DecodedKernel program(kernel);
  const auto watched = watches_memory(options.detectors)
                           ? watched_ranges(kernel, args, options.ranges)
                           : std::vector<WatchedRange>();
  GlobalMemory global(options, watched);
  const std::int64_t clusters = std::int64_t{grid[0]} * grid[1] * grid[2] / kernel.info.cluster;
  std::vector<AccessCounter> accesses(program.code().size());

  std::vector<std::unique_ptr<HostThreadWork>> works;
  const std::int64_t hosts =
      std::clamp<std::int64_t>(options.threads, 1, std::max<std::int64_t>(1, clusters));
  for (std::int64_t n = 0; n < hosts; ++n)
    works.push_back(std::make_unique<HostThreadWork>(
        Launch{program, options, grid, args, global, {}, accesses}));
  std::atomic<std::int64_t> next{0};
  Standstill standstill(works.size());
  std::vector<std::thread> threads;
  for (std::size_t n = 1; n < works.size(); ++n)
    threads.emplace_back(run_clusters, std::ref(*works[n]), n, std::ref(standstill), std::ref(next),
                         clusters);
  run_clusters(*works[0], 0, standstill, next, clusters);
  for (std::thread& t : threads) t.join();

  Report report;
  std::vector<std::pair<std::int64_t, std::vector<Finding>>> found;
  for (auto& work : works) {
    if (work->error) std::rethrow_exception(work->error);
    add_counters(report.counters, accesses, work->launch);
    std::move(work->found.begin(), work->found.end(), std::back_inserter(found));
  }
  std::sort(found.begin(), found.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  for (auto& [cta, list] : found) merge(report.findings, std::move(list));
  if (ended(report)) merge(report.findings, global.unstored().find(kernel));
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
