#include "codegen/check/shared_state.h"

#include <algorithm>

namespace tegula::codegen {

namespace {

/// Returns the join of one access's status over two paths.
AccessStatus weaker(const AccessStatus& a, const AccessStatus& b) {
  AccessStatus s = a;
  s.age = std::min(a.age, b.age);
  s.fenced = a.fenced && b.fenced;
  s.done = a.done && b.done;
  s.is_reaccumulated = a.is_reaccumulated && b.is_reaccumulated;
  s.seen = a.seen & b.seen;
  s.clean = a.clean & b.clean;
  return s;
}

}  // namespace

void SharedState::set(const AccessStatus& s) {
  const auto found = std::ranges::lower_bound(open, s.place, {}, &AccessStatus::place);
  if (found != open.end() && found->place == s.place)
    *found = s;
  else
    open.insert(found, s);
}

void SharedState::join(const SharedState& other) {
  needs_wgmma_fence = needs_wgmma_fence || other.needs_wgmma_fence;
  is_after_cluster_barrier = is_after_cluster_barrier && other.is_after_cluster_barrier;
  if (other.remote > remote) {
    remote = other.remote;
    remote_use = other.remote_use;
  }
  if (open == other.open) return;
  std::vector<AccessStatus> both;
  both.reserve(open.size() + other.open.size());
  auto a = open.begin();
  auto b = other.open.begin();
  while (a != open.end() && b != other.open.end()) {
    if (a->place == b->place)
      both.push_back(weaker(*a++, *b++));
    else
      both.push_back(a->place < b->place ? *a++ : *b++);
  }
  both.insert(both.end(), a, open.end());
  both.insert(both.end(), b, other.open.end());
  open = std::move(both);
}

std::uint32_t SmemAccesses::number(const SmemAccess& p) {
  const std::uint64_t key = (std::uint64_t{p.op.index} << 16) |
                            (static_cast<std::uint64_t>(p.part) << 8) |
                            static_cast<std::uint64_t>(p.group);
  const auto [it, is_new] = known_.try_emplace(key, static_cast<std::uint32_t>(all_.size()));
  if (is_new) all_.push_back(p);
  return it->second;
}

void join_warpgroups(SharedState& state, const SmemAccesses& places, std::uint32_t groups) {
  for (AccessStatus& s : state.open) {
    const SmemAccess& p = places.of(s);
    const bool is_over =
        p.use == AccessKind::GenericWrite || p.use == AccessKind::MbarrierInit || s.done;
    const std::uint32_t known = s.seen | (1U << p.group);
    if (!is_over || (known & groups) == 0) continue;
    s.seen |= groups;
    // A barrier extends a fence to the warpgroups that it notifies of the write.
    const std::uint32_t fenced = s.clean | (s.fenced ? 1U << p.group : 0U);
    if ((fenced & groups) != 0) s.clean |= groups;
  }
}

// A fence by the writers counts, and so does one by other warpgroups after a barrier.
void fence(SharedState& state, const SmemAccesses& places, const Threads& threads,
           bool inits_only) {
  const std::uint32_t groups = warpgroups_of(threads);
  for (AccessStatus& s : state.open) {
    const SmemAccess& p = places.of(s);
    if (p.use != AccessKind::MbarrierInit && (inits_only || p.use != AccessKind::GenericWrite))
      continue;
    if ((p.threads & ~threads).none()) s.fenced = true;
    s.clean |= s.seen & groups;
  }
}

void commit(SharedState& state, const SmemAccesses& places, AccessKind use,
            const Threads& threads) {
  for (AccessStatus& s : state.open)
    if (places.of(s).use == use && (places.of(s).threads & threads).any()) ++s.age;
}

void retire(SharedState& state, const SmemAccesses& places, AccessKind use, const Threads& threads,
            std::int64_t count) {
  for (AccessStatus& s : state.open)
    if (places.of(s).use == use && (places.of(s).threads & ~threads).none() && s.age >= count)
      s.done = true;
}

}  // namespace tegula::codegen
