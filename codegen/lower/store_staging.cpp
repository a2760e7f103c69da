#include "codegen/lower/store_staging.h"

#include <algorithm>

#include "ir/pipeline.h"
#include "tegula/error.h"
#include "tegula/int_math.h"

namespace tegula::codegen {

using namespace ir;

namespace {

constexpr std::int64_t kMaxBuffers = 4;
/// Alignment of swizzled tiles.
constexpr std::int64_t kAlignment = 1024;
/// From this number of buffers on, a store's warps need not synchronise before they write: of those
/// in flight one can always be unread.
constexpr int kSpareBuffers = 3;

}  // namespace

SharedLayout StoreStaging::layout(Type tile) {
  const Dims shape{static_cast<int>(tile.shape()[0]), static_cast<int>(tile.shape()[1])};
  const auto swizzled = SharedLayout::swizzled(shape, size_bytes(tile.dtype()), {1, 0}, 128,
                                               SegmentRule::WidestFirst);
  if (!swizzled) throw InternalError("a store of " + tile.str() + ": " + swizzled.reason());
  return *swizzled;
}

std::optional<StoreStaging> StoreStaging::of(const Kernel& machine, int groups, std::int64_t end) {
  std::vector<OpId> stores;
  StoreStaging s;
  walk(machine, machine.body(), [&](OpId op) {
    if (machine[op].opcode != Opcode::StoreView || machine[op].attrs.i(AttrName::tma) != 1) return;
    stores.push_back(op);
    const SharedLayout staged = layout(machine.type(machine[op].operands[1]));
    s.bytes_ = std::max(s.bytes_, round_up(staged.bytes(), kAlignment));
  });
  if (stores.empty()) return std::nullopt;
  s.groups_ = groups;
  s.first_ = round_up(end, kAlignment);
  const std::int64_t room =
      (machine.info.target->shared_bytes_per_cta - s.first_) / (groups * s.bytes_);
  const auto most = std::min(kMaxBuffers, static_cast<std::int64_t>(stores.size()));
  s.buffers_ = static_cast<int>(std::clamp<std::int64_t>(room, 1, most));
  s.assign_slots(machine, stores);
  s.find_meetings(machine, stores);
  return s;
}

/// Warpgroups divide some tiles by rows, others by columns. A buffer's parts stay those of the
/// iteration before in the first loop with a store alone.
void StoreStaging::find_meetings(const Kernel& machine, const std::vector<OpId>& stores) {
  const auto has_rows = [&](OpId op) {
    return machine.type(machine[op].operands[1]).shape()[0] %
               (kWarpRows * (machine.info.threads / 32)) ==
           0;
  };
  if (std::ranges::all_of(stores, has_rows) || std::ranges::none_of(stores, has_rows)) return;
  const RegionId first = machine[stores.front()].parent;
  const OpId loop = machine[first].owner;
  const bool is_alone =
      std::ranges::count(stores, first, [&](OpId op) { return machine[op].parent; }) == 1;
  const bool is_first = loop && is_alone && machine[loop].parent == machine.body();
  for (OpId op : stores) slots_[op].all_meet = !(is_first && op == stores.front());
}

/// If all stores follow each other in one region and use the buffers evenly, a tile continues with
/// the buffers as the previous one left them. Else the first store waits until all buffers are
/// free.
void StoreStaging::assign_slots(const Kernel& machine, const std::vector<OpId>& stores) {
  const int count = static_cast<int>(stores.size());
  const bool in_a_row = std::ranges::all_of(
      stores, [&](OpId op) { return machine[op].parent == machine[stores[0]].parent; });
  const bool goes_round = in_a_row && count % buffers_ == 0;
  const bool has_spare = buffers_ >= kSpareBuffers;
  for (int i = 0; i < count; ++i) {
    StagingSlot slot;
    slot.buffer = i % buffers_;
    if (!in_a_row || (i == 0 && !goes_round))
      slot.unread_before = 0;
    else if (!has_spare && (goes_round || i >= buffers_))
      slot.unread_before = buffers_ - 1;
    if (has_spare && in_a_row && (goes_round || (i + 1 >= buffers_ && i + 1 < count)))
      slot.unread_behind = buffers_ - 2;
    slots_[stores[static_cast<std::size_t>(i)]] = slot;
  }
}

}  // namespace tegula::codegen
