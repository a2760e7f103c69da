#include "ir/schedule/search.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "ir/schedule/edits.h"
#include "ir/schedule/judge.h"
#include "ir/schedule/list_schedule.h"
#include "ir/schedule/timeline.h"

namespace tegula::ir {
namespace {

class Moves {
 public:
  Moves(Schedule& s, std::mt19937_64& random) : s_(s), random_(random) {}

  bool run() {
    if (s_.loops.empty() || s_.channels.empty()) return false;
    LoopSchedule& loop = any(s_.loops);
    if (loop.steps.empty()) return false;
    Step& step = any(loop.steps);
    const std::size_t kind = below(9);
    if (kind < 2) return swap(loop, step);
    if (kind < 4) return change(step.stage);
    if (kind == 4) return s_.find_dot(step.op) && change(step.in_flight);
    if (kind == 5) return token(step, any(loop.steps));
    if (kind == 6) return registers(any(s_.roles));
    if (kind == 7) return regroup(any(s_.channels));
    return channel(any(s_.channels));
  }

 private:
  std::size_t below(std::size_t count) { return static_cast<std::size_t>(random_() % count); }
  template <class T>
  T& any(std::vector<T>& list) {
    return list[below(list.size())];
  }
  template <class T>
  bool change(T& number, int by = 1) {
    number = static_cast<T>(number + (random_() % 2 == 0 ? by : -by));
    return number >= 0;
  }

  /// Swaps the step with the next one of its role.
  static bool swap(LoopSchedule& loop, Step& step) {
    Step* next = nullptr;
    for (Step& b : loop.steps)
      if (b.role == step.role && b.order > step.order && (!next || b.order < next->order))
        next = &b;
    if (next) std::swap(step.order, next->order);
    return next != nullptr;
  }
  bool channel(Channel& c) {
    using enum ChannelKind;
    if ((c.kind != Smem && c.kind != Register) || random_() % 2 == 0)
      return change(c.slots) && c.slots > 0;
    c.kind = c.kind == Smem ? Register : Smem;
    return true;
  }
  /// Moves a load to another channel of TMA loads, or to a new channel.
  bool regroup(const Channel& from) {
    const Channel& to = any(s_.channels);
    if (from.kind != ChannelKind::Tma || to.kind != ChannelKind::Tma) return false;
    const Label load = from.payload[below(from.payload.size())];
    return move_to_channel(s_, load, random_() % 2 == 0 ? to.name : new_name());
  }
  Name new_name() const {
    for (std::size_t i = 0;; ++i)
      if (const Name name(fmt::format("c{}", i));
          std::ranges::find(s_.channels, name, &Channel::name) == s_.channels.end())
        return name;
  }
  bool registers(Role& role) {
    return role.regs != 0 && change(role.regs, s_.target->register_unit);
  }
  bool token(const Step& first, const Step& last) {
    if (!s_.tokens.empty()) {
      s_.tokens.erase(s_.tokens.begin() + static_cast<std::ptrdiff_t>(below(s_.tokens.size())));
      return true;
    }
    if (first.role != last.role || first.order > last.order) return false;
    s_.tokens.push_back({"order", first.role, first.op, last.op});
    return true;
  }

  Schedule& s_;
  std::mt19937_64& random_;
};

class ScheduleSearch {
 public:
  ScheduleSearch(const Kernel& k, const Graph& g, const SearchOptions& options)
      : k_(k), g_(g), o_(options), random_(options.seed) {}

  SearchResult run(const Schedule& start) {
    best_ = {start, score(start), 0, 0};
    offer(list_schedule(k_, g_, start));
    for (int i = 0; i < o_.restarts; ++i) descend(i % 2 == 0 ? best_.schedule : start);
    return std::move(best_);
  }

 private:
  double score(const Schedule& s) const {
    return cycles_of_iteration(k_, g_, s).value_or(std::numeric_limits<double>::max());
  }

  /// Returns the score of a legal Schedule, and records the Schedule if it is the best one so far.
  double offer(const Schedule& s) {
    const double cycles = score(s);
    if (cycles >= best_.cycles) return cycles;
    best_.schedule = s;
    return best_.cycles = cycles;
  }

  /// Accepts worse neighbours with a probability that falls with their loss and with time.
  void descend(Schedule s) {
    constexpr double kFirstLoss = 0.1;  // fraction of the cycles, at the beginning
    double cycles = score(s);
    for (int i = 0; i < o_.moves; ++i) {
      Schedule moved = s;
      if (!random_move(moved, random_)) continue;
      ++best_.tried;
      const auto legal = with_needed_slots(k_, g_, std::move(moved));
      if (!legal) continue;
      ++best_.legal;
      const double now = offer(*legal);
      const double warmth = kFirstLoss * (1 - static_cast<double>(i) / o_.moves);
      const double chance = std::exp((cycles - now) / (cycles * warmth));
      if (now >= cycles && std::uniform_real_distribution<>()(random_) > chance) continue;
      s = *legal;
      cycles = now;
    }
  }

  const Kernel& k_;
  const Graph& g_;
  SearchOptions o_;
  std::mt19937_64 random_;
  SearchResult best_;
};

}  // namespace

bool random_move(Schedule& s, std::mt19937_64& random) { return Moves(s, random).run(); }

SearchResult search_schedules(const Kernel& k, const Graph& graph, const Schedule& start,
                              const SearchOptions& options) {
  return ScheduleSearch(k, graph, options).run(start);
}

}  // namespace tegula::ir
