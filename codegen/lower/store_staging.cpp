#include "codegen/lower/store_staging.h"

#include <algorithm>

#include "ir/pipeline.h"
#include "tegula/int_math.h"

namespace tegula::codegen {

using namespace ir;

namespace {

/// With at least this number of unread groups, a store's warps need not synchronize before they
/// write: the wait happens when the previous store is issued, while a group is still unread.
constexpr int kSpareGroups = 2;

/// Returns true if a warpgroup uses the same bytes of a buffer for each of these tiles: rows whose
/// segments all have the same width, or the same columns.
bool are_parts_alike(const Kernel& k, const std::vector<OpId>& stores) {
  const int warps = k.info.threads / 32;
  if (warps <= kWarpgroupWarps) return true;
  const auto tile_of = [&](OpId op) { return k.type(k[op].operands[1]); };
  const auto has_rows = [&](OpId op) { return tile_of(op).shape()[0] % (kWarpRows * warps) == 0; };
  const Type first = tile_of(stores.front());
  const SharedLayout layout = staged_layout(first);
  return std::ranges::all_of(stores, [&](OpId op) {
    const SharedLayout own = staged_layout(tile_of(op));
    if (own == layout) return true;
    const auto is_as_wide = [&](const SwizzleSegment& piece) {
      return piece.width == layout.piece_list().front().width;
    };
    return has_rows(op) && has_rows(stores.front()) && tile_of(op).shape()[0] == first.shape()[0] &&
           std::ranges::all_of(layout.piece_list(), is_as_wide) &&
           std::ranges::all_of(own.piece_list(), is_as_wide);
  });
}

/// Returns the stores of a list that are in this region.
std::vector<OpId> in_region(const Kernel& k, const std::vector<OpId>& stores, RegionId region) {
  std::vector<OpId> found;
  std::ranges::copy_if(stores, std::back_inserter(found),
                       [&](OpId op) { return k[op].parent == region; });
  return found;
}

}  // namespace

std::optional<StoreStaging> StoreStaging::of(const Kernel& machine, const Schedule* requested,
                                             int groups, std::int64_t end) {
  const std::vector<StagingRing> rings = staging_rings(machine, requested, groups, end);
  if (rings.empty()) return std::nullopt;
  StoreStaging s;
  s.groups_ = groups;
  s.first_ = round_up(end, kStagingAlignment);
  walk(machine, machine.body(), [&](OpId op) {
    for (const StagingRing& ring : rings)
      if (std::ranges::find(ring.stores, op) != ring.stores.end()) s.stores_.push_back(op);
  });
  for (const StagingRing& ring : rings) s.add(machine, ring);
  return s;
}

SharedUse StoreStaging::use(const Kernel& machine) const {
  return {machine[stores_.front()].loc, "staging buffers of stores by TMA", groups_ * bytes_};
}

void StoreStaging::add(const Kernel& machine, const StagingRing& ring) {
  for (std::size_t i = 0; i < ring.stores.size(); ++i)
    slots_[ring.stores[i]].offset =
        first_ + bytes_ + static_cast<std::int64_t>(i) % ring.buffers * ring.buffer_bytes;
  bytes_ += ring.buffers * ring.buffer_bytes;
  const RegionId region = machine[ring.stores[0]].parent;
  const bool is_in_a_row = in_region(machine, ring.stores, region).size() == ring.stores.size();
  is_in_a_row ? wait_in_turn(machine, ring) : wait_for_all(machine, ring);
}

/// Each store waits until all buffers are free. If warpgroups use different parts of a buffer from
/// store to store, all of them synchronize. The first store need not if it is alone in an outermost
/// loop: the warpgroups used the same parts in the previous iteration.
void StoreStaging::wait_for_all(const Kernel& machine, const StagingRing& ring) {
  const OpId front = ring.stores.front();
  const bool is_mixed = !are_parts_alike(machine, ring.stores);
  const RegionId region = machine[front].parent;
  const OpId loop = machine[region].owner;
  const bool is_alone = in_region(machine, ring.stores, region).size() == 1;
  const bool is_first = loop && is_alone && machine[loop].parent == machine.body();
  for (OpId op : ring.stores) {
    slots_[op].unread_before = 0;
    slots_[op].all_warps_sync = is_mixed && !(is_first && op == front);
  }
}

/// Handles stores that follow each other in one region. If they use the buffers evenly, each
/// execution of the region continues with the buffers as the previous one left them; otherwise its
/// first store waits until all are free. Groups of other rings that are committed in between may be
/// unread, too.
void StoreStaging::wait_in_turn(const Kernel& machine, const StagingRing& ring) {
  const std::vector<OpId>& stores = ring.stores;
  const std::vector<OpId> in_turn = in_region(machine, stores_, machine[stores[0]].parent);
  const auto place = [&](OpId op) { return std::ranges::find(in_turn, op) - in_turn.begin(); };
  const std::size_t count = stores.size(), buffers = static_cast<std::size_t>(ring.buffers);
  const bool wraps_around = count % buffers == 0;
  for (std::size_t i = 0; i < count; ++i) {
    const bool begins_anew = i == 0 && !wraps_around, is_of_last_time = i < buffers;
    if (is_of_last_time && !wraps_around && !begins_anew) continue;
    // The store that used the buffer before; the last one of all if the ring starts again.
    const OpId before = stores[!is_of_last_time ? i - buffers
                               : wraps_around   ? i + count - buffers
                                                : count - 1];
    const auto between = static_cast<int>(place(stores[i]) - place(before) - 1 +
                                          (is_of_last_time ? std::ssize(in_turn) : 0));
    StagingSlot& slot = slots_[stores[i]];
    slot.all_warps_sync =
        !are_parts_alike(machine, begins_anew ? stores : std::vector{before, stores[i]});
    if (between < kSpareGroups || begins_anew || slot.all_warps_sync) {
      slot.unread_before = between;
      continue;
    }
    const std::size_t all = in_turn.size(), position = static_cast<std::size_t>(place(stores[i]));
    slots_[in_turn[(position + all - 1) % all]].unread_after = between - 1;
  }
}

}  // namespace tegula::codegen
