// Clocks of other clusters.
#include "codegen/sim/clock.h"

namespace tegula::sim {
namespace {

using ClockPtr = std::shared_ptr<const Clock>;

void join(ClockPtr& to, const ClockPtr& from) {
  if (!from || to == from) return;
  if (!to || from->covers(*to)) {
    to = from;
  } else if (!to->covers(*from)) {
    auto both = std::make_shared<Clock>(*to);
    both->join(*from);
    to = std::move(both);
  }
}

}  // namespace

void ForeignClock::join(const ForeignClock& other) {
  sim::join(seen, other.seen);
  sim::join(present, other.present);
  sim::join(narrow, other.narrow);
}

const ForeignClock* Foreign::find(std::uint32_t home) const {
  if (!list_) return nullptr;
  const auto found = std::ranges::lower_bound(*list_, home, {}, &ForeignClock::home);
  return found != list_->end() && found->home == home ? &*found : nullptr;
}

void Foreign::join(const Foreign& other) {
  if (!other.list_ || list_ == other.list_) return;
  if (!list_) {
    list_ = other.list_;
    return;
  }
  auto all = std::make_shared<std::vector<ForeignClock>>();
  auto own = list_->begin();
  for (const ForeignClock& theirs : *other.list_) {
    for (; own != list_->end() && own->home < theirs.home; ++own) all->push_back(*own);
    all->push_back(theirs);
    if (own != list_->end() && own->home == theirs.home) all->back().join(*own++);
  }
  all->insert(all->end(), own, list_->end());
  list_ = std::move(all);
}

void Foreign::join(ForeignClock clock) {
  Foreign one;
  one.list_ = std::make_shared<std::vector<ForeignClock>>(1, std::move(clock));
  join(one);
}

Foreign Foreign::narrowed() const {
  if (!list_) return {};
  auto narrow = std::make_shared<std::vector<ForeignClock>>(*list_);
  for (ForeignClock& c : *narrow) {
    sim::join(c.narrow, c.seen);
    c.seen = nullptr;
  }
  Foreign f;
  f.list_ = std::move(narrow);
  return f;
}

}  // namespace tegula::sim
