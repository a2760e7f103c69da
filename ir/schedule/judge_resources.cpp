// Rules R: shared memory, registers, barriers, threads and clusters.
#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "ir/schedule/judging.h"
#include "ir/schedule/staging_rings.h"

namespace tegula::ir {
namespace {

constexpr std::int64_t kMbarrierBytes = 8;
constexpr int kMaxClusterCtas = 8;

class Resources {
 public:
  explicit Resources(Judging& j) : j_(j), target_(*j.s.target) {}

  void run() {
    shared_memory();
    threads();
    registers();
    mma_registers();
    barriers();
    cluster();
  }

 private:
  void shared_memory() {
    std::string parts;
    std::int64_t& sum = j_.verdict.derived.shared_bytes;
    for (std::size_t i = 0; i < j_.s.channels.size(); ++i) {
      const Channel& c = j_.s.channels[i];
      const std::int64_t bytes = j_.verdict.derived.channels[i].slot_bytes;
      if (bytes == 0) continue;
      const bool has_mbarriers = c.kind == ChannelKind::Tma || c.kind == ChannelKind::Smem;
      const int owners = is_of_stores(c.kind) ? most_copies() : 1;
      const std::int64_t all =
          owners * c.slots * (bytes + (has_mbarriers ? 2 * kMbarrierBytes : 0));
      sum += all;
      parts += fmt::format("{}{} {}", parts.empty() ? "" : ", ", c.name, all);
    }
    const std::int64_t limit =
        std::min(target_.shared_bytes_per_cta,
                 target_.shared_bytes_per_sm / j_.s.tiles.ctas - target_.shared_bytes_reserved);
    if (sum > limit) j_.refuse(Rule::R1, {}, "{} bytes: {}; {} allowed", sum, parts, limit);
  }

  /// Returns the largest number of copies of a role. Each copy has its own staging buffers.
  int most_copies() const {
    int most = 1;
    for (const Role& r : j_.s.roles) most = std::max(most, r.copies);
    return most;
  }

  void threads() {
    const int threads = 32 * j_.total_warps();
    if (threads > target_.max_threads_per_cta)
      j_.refuse(Rule::R6, {}, "{} threads, but a CTA has at most {}", threads,
                target_.max_threads_per_cta);
    else if (threads * j_.s.tiles.ctas > target_.max_threads_per_sm)
      j_.refuse(Rule::R6, {}, "{} CTAs of {} threads, but an SM has at most {}", j_.s.tiles.ctas,
                threads, target_.max_threads_per_sm);
  }

  void registers() {
    const int warps = j_.total_warps(), at_entry = target_.registers_at_entry(std::max(warps, 1));
    int taken = 0;
    for (const Role& r : j_.s.roles) {
      const int own = r.regs != 0 ? r.regs : at_entry;
      j_.verdict.derived.registers.push_back(own);
      taken += own * r.warps * r.copies;
      if (r.regs == 0) continue;
      if (!target_.has_wgmma || r.regs % target_.register_unit != 0 ||
          r.regs < target_.least_setmaxnreg || r.regs > target_.most_setmaxnreg)
        j_.refuse(Rule::R3, {}, "{}: setmaxnreg does not support {} registers", r.name, r.regs);
      if (r.warps % kWarpgroupWarps != 0)
        j_.refuse(Rule::R4, {}, "{}: a register count requires whole warpgroups, not {} warps",
                  r.name, r.warps);
    }
    if (taken > at_entry * warps)
      j_.refuse(Rule::R3, {}, "roles take {} registers per lane, but there are {}", taken,
                at_entry * warps);
  }

  std::int64_t registers_of(Type tile, std::size_t role) const {
    const std::int64_t threads = 32 * j_.s.roles[role].warps;
    return tile.count() * size_bytes(tile.dtype()) / 4 / std::max<std::int64_t>(1, threads);
  }

  /// Checks the registers of carried accumulators, of the largest other one, and of the fragments
  /// in register channels.
  void mma_registers() {
    for (std::size_t role = 0; role < j_.s.roles.size(); ++role) {
      std::int64_t needed = 0;
      for (const LoopSchedule& loop : j_.s.loops)
        needed = std::max(needed, mma_registers_of(loop, role));
      const int has = j_.verdict.derived.registers[role];
      if (needed == 0 || needed + kNonAccumulatorRegisters <= has) continue;
      j_.refuse(Rule::R2, {},
                "{}: {} registers of accumulators and fragments and {} "
                "others; it has {}",
                j_.role_name(role), needed, kNonAccumulatorRegisters, has);
    }
  }

  std::int64_t mma_registers_of(const LoopSchedule& loop, std::size_t role) const {
    std::int64_t carried = 0, largest = 0, fragments = 0;
    for (std::size_t n : j_.nodes_in_order(loop, role)) {
      const DotForm* form = j_.s.find_dot(j_.label(n));
      if (form && form->engine == Engine::Wgmma) {
        const std::int64_t own =
            registers_of(j_.k.type(j_.k[j_.op_of(form->dot)].results[0]), role);
        const bool is_carried = std::ranges::any_of(j_.g.edges(), [&](const Edge& e) {
          return e.from == n && e.distance > 0 && e.kind == EdgeKind::Flow;
        });
        (is_carried ? carried : largest) = is_carried ? carried + own : std::max(largest, own);
      }
      const Channel* c = j_.channel_of(j_.label(n));
      if (c && c->kind == ChannelKind::Register)
        fragments += c->slots * registers_of(j_.tile_of(n), role);
    }
    return carried + largest + fragments;
  }

  void barriers() {
    int count = 0;
    for (const Token& t : j_.s.tokens) count += j_.warpgroups(t.role) * j_.s.roles[t.role].copies;
    const int tokens = count;
    const auto roles = static_cast<int>(j_.s.roles.size() > 1 ? j_.s.roles.size() : 0);
    const auto channels =
        static_cast<int>(std::ranges::count_if(j_.s.channels, [](const Channel& c) {
          return c.kind == ChannelKind::Smem && c.slots == 1;
        }));
    count += roles + channels;
    if (count >= kNamedBarriers)
      j_.refuse(Rule::R5, {}, "{} barriers: tokens {}, roles {}, channels {}; {} allowed", count,
                tokens, roles, channels, kNamedBarriers - 1);
  }

  void cluster() {
    const auto ctas = static_cast<unsigned>(j_.s.tiles.cluster);
    if (ctas == 1) return;
    if (!target_.has_clusters || !std::has_single_bit(ctas) || ctas > kMaxClusterCtas)
      j_.refuse(Rule::R7, {}, "clusters of {} CTAs on {}", ctas, j_.s.target.name());
  }

  Judging& j_;
  const TargetRow& target_;
};

}  // namespace

void judge_resources(Judging& j) { Resources(j).run(); }

}  // namespace tegula::ir
