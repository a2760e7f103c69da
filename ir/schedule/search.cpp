#include "ir/schedule/search.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ir/schedule/judge.h"
#include "ir/schedule/list_schedule.h"
#include "ir/schedule/timeline.h"

namespace tegula::ir {
namespace {

class Moves {
 public:
  Moves(Schedule& s, std::mt19937_64& random) : s_(s), random_(random) {}

  bool run() {
    constexpr bool (Moves::* kMoves[])() = {&Moves::swap,  &Moves::swap,  &Moves::stage,
                                            &Moves::stage, &Moves::slots, &Moves::in_flight,
                                            &Moves::kind,  &Moves::token, &Moves::registers};
    return (this->*kMoves[below(std::size(kMoves))])();
  }

 private:
  std::size_t below(std::size_t count) { return static_cast<std::size_t>(random_() % count); }
  int sign() { return random_() % 2 == 0 ? 1 : -1; }
  template <class T>
  T* any(std::vector<T>& list) {
    return list.empty() ? nullptr : &list[below(list.size())];
  }
  Step* any_step() {
    LoopSchedule* loop = any(s_.loops);
    return loop ? any(loop->steps) : nullptr;
  }

  bool swap() {
    LoopSchedule* loop = any(s_.loops);
    Step* a = loop ? any(loop->steps) : nullptr;
    if (!a) return false;
    Step* next = nullptr;
    for (Step& b : loop->steps)
      if (b.role == a->role && b.order > a->order && (!next || b.order < next->order)) next = &b;
    if (next) std::swap(a->order, next->order);
    return next != nullptr;
  }
  bool stage() {
    Step* step = any_step();
    if (!step) return false;
    const int moved = step->stage + sign();
    if (moved < 0) return false;
    step->stage = static_cast<std::int8_t>(moved);
    return true;
  }
  bool slots() {
    Channel* c = any(s_.channels);
    if (!c) return false;
    c->slots += sign();
    return c->slots > 0;
  }
  bool in_flight() {
    Step* step = any_step();
    if (!step || !s_.find_dot(step->op)) return false;
    step->in_flight = static_cast<std::int8_t>(step->in_flight + sign());
    return step->in_flight >= 0;
  }
  bool kind() {
    Channel* c = any(s_.channels);
    using enum ChannelKind;
    if (!c || (c->kind != Smem && c->kind != Register)) return false;
    c->kind = c->kind == Smem ? Register : Smem;
    return true;
  }
  bool token() {
    if (!s_.tokens.empty()) {
      s_.tokens.erase(s_.tokens.begin() + static_cast<std::ptrdiff_t>(below(s_.tokens.size())));
      return true;
    }
    LoopSchedule* loop = any(s_.loops);
    const Step* first = loop ? any(loop->steps) : nullptr;
    const Step* last = loop ? any(loop->steps) : nullptr;
    if (!first || first->role != last->role || first->order > last->order) return false;
    s_.tokens.push_back({"order", first->role, first->op, last->op});
    return true;
  }
  bool registers() {
    Role* role = any(s_.roles);
    if (!role || role->regs == 0) return false;
    role->regs += sign() * s_.target->register_unit;
    return true;
  }

  Schedule& s_;
  std::mt19937_64& random_;
};

class Search {
 public:
  Search(const Kernel& k, const Graph& g, const SearchOptions& options)
      : k_(k), g_(g), o_(options), random_(options.seed) {}

  SearchResult run(const Schedule& start) {
    best_ = {start, score(start), 0, 0};
    const Schedule listed = list_schedule(k_, g_, start);
    offer(listed, score(listed));
    for (int i = 0; i < o_.restarts; ++i) descend(i % 2 == 0 ? best_.schedule : start);
    return std::move(best_);
  }

 private:
  double score(const Schedule& s) const {
    return cycles_of_iteration(k_, g_, s).value_or(std::numeric_limits<double>::max());
  }

  void offer(const Schedule& s, double cycles) {
    if (cycles >= best_.cycles) return;
    best_.schedule = s;
    best_.cycles = cycles;
  }

  /// Worse neighbours are accepted with a probability that falls with what they lose and with time.
  void descend(Schedule s) {
    constexpr double kFirstLoss = 0.1;  // of the cycles, at the beginning
    double cycles = score(s);
    for (int i = 0; i < o_.moves; ++i) {
      Schedule moved = s;
      if (!random_move(moved, random_)) continue;
      ++best_.tried;
      const auto legal = with_needed_slots(k_, g_, std::move(moved));
      if (!legal) continue;
      ++best_.legal;
      const double now = score(*legal);
      const double warmth = kFirstLoss * (1 - static_cast<double>(i) / o_.moves);
      const double chance = std::exp((cycles - now) / (cycles * warmth));
      if (now >= cycles && std::uniform_real_distribution<>()(random_) > chance) continue;
      s = *legal;
      cycles = now;
      offer(s, cycles);
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
  return Search(k, graph, options).run(start);
}

}  // namespace tegula::ir
