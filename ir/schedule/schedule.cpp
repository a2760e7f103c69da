#include "ir/schedule/schedule.h"

#include <algorithm>

#include "ir/schedule/words.h"

namespace tegula::ir {

std::string_view name(ChannelKind kind) { return word_of(kChannelKinds, kind); }
std::string_view name(Engine engine) { return word_of(kEngines, engine); }
std::string_view name(TileOrder order) { return word_of(kTileOrders, order); }

const DotForm* Schedule::find_dot(Label dot) const {
  const auto found = std::ranges::find(dots, dot, &DotForm::dot);
  return found == dots.end() ? nullptr : &*found;
}

const LoopSchedule* Schedule::find_loop(Label loop) const {
  const auto found = std::ranges::find(loops, loop, &LoopSchedule::loop);
  return found == loops.end() ? nullptr : &*found;
}

const Channel* Schedule::find_channel(Label payload) const {
  for (const Channel& c : channels)
    if (std::ranges::find(c.payload, payload) != c.payload.end()) return &c;
  return nullptr;
}

std::size_t Schedule::role_index(Name name) const {
  return static_cast<std::size_t>(std::ranges::find(roles, name, &Role::name) - roles.begin());
}

}  // namespace tegula::ir
