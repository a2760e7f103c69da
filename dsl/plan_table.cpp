#include "dsl/plan_table.h"

#include <algorithm>
#include <array>
#include <mutex>
#include <utility>
#include <vector>

namespace tegula::dsl {
namespace {

using Plan = std::shared_ptr<const CallPlan>;

bool is_of(const CallPlan& plan, const PlanKey& key) {
  return plan.hash == key.hash() && std::ranges::equal(plan.key, key.words());
}

/// Two-way sets; the most recently used way is kept.
class ThreadPlans {
 public:
  const CallPlan* find(const PlanKey& key) {
    Set& set = set_of(key.hash());
    for (std::size_t way = 0; way < set.ways.size(); ++way) {
      if (!set.ways[way] || !is_of(*set.ways[way], key)) continue;
      set.latest = way;
      return set.ways[way].get();
    }
    return nullptr;
  }
  const CallPlan* keep(Plan plan) {
    Set& set = set_of(plan->hash);
    set.latest = 1 - set.latest;
    set.ways[set.latest] = std::move(plan);
    return set.ways[set.latest].get();
  }

 private:
  struct Set {
    std::array<Plan, 2> ways;
    std::size_t latest = 1;
  };
  static constexpr std::size_t kSets = 128;

  Set& set_of(std::uint64_t hash) { return sets_[(hash >> 32) % kSets]; }

  std::array<Set, kSets> sets_;
};

/// Freed at the thread's end. If the destructor of another thread-local object makes a call later,
/// it gets a new table, which is not freed.
struct ThreadPlansOwner {
  ThreadPlans* plans = nullptr;
  ~ThreadPlansOwner() { delete std::exchange(plans, nullptr); }
};

ThreadPlans& thread_plans() {
  thread_local ThreadPlansOwner owner;
  if (owner.plans == nullptr) [[unlikely]]
    owner.plans = new ThreadPlans;
  return *owner.plans;
}

/// The plans with equal hash suffixes. The least recently used plan is evicted first.
class Shard {
 public:
  Plan find(const PlanKey& key) {
    const std::lock_guard lock(mutex_);
    const auto at = place_of(key.hash(), key.words());
    if (at == plans_.end()) return nullptr;
    at->asked = ++now_;
    return at->plan;
  }
  Plan keep(Plan plan) {
    Plan gone;  // freed without the lock
    const std::lock_guard lock(mutex_);
    if (const auto at = place_of(plan->hash, plan->key); at != plans_.end()) return at->plan;
    if (plans_.size() == kMax) {
      const auto oldest = std::ranges::min_element(plans_, {}, &Kept::asked);
      gone = std::exchange(oldest->plan, plan);
      oldest->asked = ++now_;
    } else {
      plans_.push_back({plan, ++now_});
    }
    return plan;
  }
  void forget(std::uint64_t callable) {
    std::vector<Plan> gone;
    const std::lock_guard lock(mutex_);
    std::erase_if(plans_, [&](const Kept& k) {
      if (k.plan->key[0] != callable) return false;
      gone.push_back(k.plan);
      return true;
    });
  }
  std::size_t size() {
    const std::lock_guard lock(mutex_);
    return plans_.size();
  }

  static constexpr std::size_t kShards = 16, kMax = kMaxPlans / kShards;

 private:
  struct Kept {
    Plan plan;
    std::uint64_t asked;
  };

  std::vector<Kept>::iterator place_of(std::uint64_t hash, std::span<const std::uint64_t> key) {
    return std::ranges::find_if(plans_, [&](const Kept& k) {
      return k.plan->hash == hash && std::ranges::equal(k.plan->key, key);
    });
  }

  std::mutex mutex_;
  std::vector<Kept> plans_;
  std::uint64_t now_ = 0;
};

std::array<Shard, Shard::kShards>& shards() {
  static auto* const all = new std::array<Shard, Shard::kShards>;  // statics may make calls, too
  return *all;
}
Shard& shard_of(std::uint64_t hash) { return shards()[hash % Shard::kShards]; }

}  // namespace

const CallPlan* plan_of_thread(const PlanKey& key) { return thread_plans().find(key); }

const CallPlan* plan_of_process(const PlanKey& key) {
  Plan plan = shard_of(key.hash()).find(key);
  return plan ? thread_plans().keep(std::move(plan)) : nullptr;
}

const CallPlan* keep_plan(Plan plan) {
  return thread_plans().keep(shard_of(plan->hash).keep(std::move(plan)));
}

void forget_plans(std::uint64_t callable) {
  for (Shard& s : shards()) s.forget(callable);
}

std::size_t number_of_plans() {
  std::size_t n = 0;
  for (Shard& s : shards()) n += s.size();
  return n;
}

}  // namespace tegula::dsl
