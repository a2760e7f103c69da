// Channels: TMA copies that land when their slot is waited for. The program runs as one thread, the
// producer thread; a wait that can never end is reported.
#include <fmt/format.h>

#include <utility>

#include "ir/analysis/tma_access.h"
#include "ir/eval/slot.h"

namespace tegula::ir::interp {
namespace {

struct Phase {
  SharedTile* channel = nullptr;
  std::int64_t slot = 0;
  /// Returns the number of phases that have ended.
  Cell& ended() const { return channel->cells[static_cast<std::size_t>(slot)]; }
};

std::optional<Phase> phase_of(Program& p, OpId id, std::size_t channel, std::size_t slot) {
  const auto buffer = slot_of(p, id, channel, slot, 0);
  if (!buffer) return std::nullopt;
  return Phase{buffer->tile, static_cast<std::int64_t>(buffer->first)};
}

}  // namespace

void eval_ProducerThread(Program& p, OpId id) { p.result(id).set_scalar(Cell{.i = 1}); }

void eval_ChannelInit(Program& p, OpId id) {
  for (std::size_t i = 0; i < p.op(id).operands.size(); ++i) {
    SharedTile& channel = *p.operand(id, i).shared;
    std::ranges::fill(channel.cells, Cell{.i = 0});
    std::ranges::fill(channel.states, std::uint8_t{0});
    channel.expected.assign(channel.cells.size(), 0);
  }
}

void eval_ChannelRelease(Program& p, OpId id) {
  ++p.effects;
  const auto phase = phase_of(p, id, 0, 1);
  const auto happens = p.integer(id, 2, "a condition");
  if (phase && happens && *happens != 0) ++phase->ended().i;
}

void eval_ChannelExpectTx(Program& p, OpId id) {
  const auto phase = phase_of(p, id, 0, 1);
  if (!phase) return;
  phase->channel->expected[static_cast<std::size_t>(phase->slot)] += p.attrs(id).i(AttrName::bytes);
}

void eval_CopyTma(Program& p, OpId id) {
  ++p.effects;
  const auto phase = phase_of(p, id, 2, 1);
  auto copy = start_copy(p, id);
  if (!phase || !copy) return;
  phase->channel->expected[static_cast<std::size_t>(phase->slot)] -=
      slot_bytes(p.operand_type(id, 0));
  p.asyncs.bulk.push_back({std::move(*copy), phase->channel, phase->slot});
}

void eval_PublishTile(Program& p, OpId id) {
  ++p.effects;
  const auto to = slot_of(p, id, 0, 1, 1);
  const auto phase = phase_of(p, id, 2, 1);
  if (!to || !phase) return;
  for (std::size_t i = 3; i < p.op(id).operands.size(); ++i) {
    const auto number = p.integer(id, i, "a number of a tile");
    if (!number) return;
    to->tile->cells[to->first + i - 3].i = *number;
    to->tile->states[to->first + i - 3] = 0;
  }
  ++phase->ended().i;
}

void eval_ReceiveTile(Program& p, OpId id) {
  const auto from = slot_of(p, id, 0, 1, 1);
  if (!from) return;
  check_readable(p, id, *from);
  for (std::size_t i = 0; i < p.op(id).results.size(); ++i)
    p.result(id, i).set_scalar(from->tile->cells[from->first + i]);
}

void eval_ChannelWait(Program& p, OpId id) {
  const auto phase = phase_of(p, id, 0, 1);
  const auto parity = p.integer(id, 2, "a phase");
  if (!phase || !parity) return;
  bool landed = false;
  std::erase_if(p.asyncs.bulk, [&](const ChannelCopy& c) {
    if (c.channel != phase->channel || c.slot != phase->slot) return false;
    land(c.copy);
    return landed = true;
  });
  std::int64_t& expected = phase->channel->expected[static_cast<std::size_t>(phase->slot)];
  const std::int64_t missing = std::exchange(expected, 0);
  if (landed) ++phase->ended().i;
  const bool ends = missing == 0 && (phase->ended().i & 1) != *parity;
  if (ends) return;
  p.report(FindingKind::Deadlock, id, p.op(id).loc, [&] {
    if (missing != 0)
      return fmt::format("channel_wait waits for slot {}: {} bytes expected more than copied",
                         phase->slot, missing);
    return fmt::format("channel_wait waits for phase {} of slot {}, which no op {}", *parity,
                       phase->slot, landed ? "ends: the other has just ended" : "ends");
  });
}

}  // namespace tegula::ir::interp
