// Rules C: channels can carry their tiles.
#include <fmt/format.h>

#include <algorithm>

#include "ir/analysis/tma_access.h"
#include "ir/analysis/tma_store.h"
#include "ir/passes/mma_loop/operand_loads.h"
#include "ir/schedule/judging.h"
#include "ir/schedule/staging_rings.h"

namespace tegula::ir {
namespace {

/// The largest transaction count of an mbarrier (PTX ISA, "mbarrier").
constexpr std::int64_t kMaxSlotBytes = (1 << 20) - 1;
constexpr int kMaxRegisterSlots = 2;

class Channels {
 public:
  explicit Channels(Judging& j) : j_(j) {}

  void run() {
    for (std::size_t i = 0; i < j_.s.channels.size(); ++i) {
      const Channel& c = j_.s.channels[i];
      Derived::OfChannel& derived = j_.verdict.derived.channels[i];
      for (Label l : c.payload) payload(c, l);
      derived.slot_bytes = slot_bytes(c);
      if (c.kind == ChannelKind::Tma && derived.slot_bytes > kMaxSlotBytes)
        j_.refuse(Rule::C2, {}, "one slot of {} has {} bytes, but an mbarrier counts at most {}",
                  c.name, derived.slot_bytes, kMaxSlotBytes);
      if (c.slots < derived.minimal_slots)
        j_.refuse(Rule::C4, {c.payload.front()}, "{} has {} slots, it needs {}", c.name, c.slots,
                  derived.minimal_slots);
      multicast(c);
      columns(c);
      if (c.kind == ChannelKind::Register) registers(c);
    }
    for (const Token& t : j_.s.tokens) token(t);
  }

 private:
  Type tile_of(Label l) const {
    const std::size_t node = *j_.g.find(l);
    const bool is_store = j_.g[node].kind == NodeKind::Store;
    return is_store ? j_.k.type(j_.k[j_.op_of(l)].operands[1]) : j_.tile_of(node);
  }

  std::int64_t loaded_bytes(Label l, Type tile) const {
    const OpData& d = j_.k[j_.op_of(l)];
    return d.opcode == Opcode::LoadView ? tma_tile_bytes(j_.k, d)
                                        : tile.count() * size_bytes(tile.dtype());
  }

  std::int64_t slot_bytes(const Channel& c) const {
    if (c.kind == ChannelKind::Register) return 0;
    std::int64_t sum = 0, most = 0;
    for (Label l : c.payload) {
      const Type tile = tile_of(l);
      if (!tile.is_tile()) continue;
      const std::int64_t bytes = c.kind == ChannelKind::Tma ? loaded_bytes(l, tile)
                                 : is_of_stores(c.kind) && tile.rank() == 2
                                     ? staging_bytes(tile, c.columns)
                                     : tile.count() * size_bytes(tile.dtype());
      sum += bytes;
      most = std::max(most, bytes);
    }
    // Stores use the slots round-robin; the loads of a channel fill one slot together.
    return is_of_stores(c.kind) ? most : sum;
  }

  /// Checks that the columns of a slot divide all wider tiles into equal parts.
  void columns(const Channel& c) {
    if (c.columns == 0) return;
    if (!is_of_stores(c.kind))
      return j_.refuse(Rule::C13, {c.payload.front()},
                       "{} columns {}: {} is not a channel of stores", c.name, c.columns,
                       name(c.kind));
    if (c.columns % kMmaColumns != 0)
      return j_.refuse(Rule::C13, {c.payload.front()}, "{} columns {}: not a multiple of {}",
                       c.name, c.columns, kMmaColumns);
    bool is_any_wider = false;
    for (Label l : c.payload) {
      const Type tile = tile_of(l);
      const std::int64_t own = tile.is_tile() && tile.rank() == 2 ? tile.shape()[1] : 0;
      is_any_wider |= own > c.columns;
      if (own > c.columns && own % c.columns != 0)
        j_.refuse(Rule::C13, {l}, "{} columns {}: {} has {}, which they do not divide", c.name,
                  c.columns, l, own);
    }
    if (!is_any_wider)
      j_.refuse(Rule::C13, {c.payload.front()}, "{} columns {}: no tile has more, leave them out",
                c.name, c.columns);
  }

  void payload(const Channel& c, Label l) {
    const OpData& d = j_.k[j_.op_of(l)];
    if (c.kind == ChannelKind::Tma) {
      const std::string why = why_not_tma(d);
      if (!why.empty()) j_.refuse(Rule::C1, {l}, "{} by TMA: {}", l, why);
    } else if (c.kind == ChannelKind::CpAsync) {
      cp_async(l);
    } else if (is_of_stores(c.kind)) {
      store(c, l, d);
    }
  }

  std::string why_not_tma(const OpData& d) const {
    if (!j_.s.target->has_tma) return fmt::format("{} has no TMA", j_.s.target.name());
    if (d.opcode != Opcode::LoadView) return "it is addressed by pointers";
    return std::string(why_not_tma_load(j_.k, d));
  }

  void cp_async(Label l) {
    const OpId load = j_.op_of(l);
    const int bytes = j_.k[load].opcode == Opcode::LoadView ? access_bytes(j_.k, load) : 0;
    if (bytes < kMinCpAsyncBytes)
      j_.refuse(Rule::C3, {l}, "{} by cp.async: an access has {} bytes, not {} or more", l, bytes,
                kMinCpAsyncBytes);
  }

  bool reduces(Label l) const { return j_.k[j_.op_of(l)].attrs.has(AttrName::kind); }

  void store(const Channel& c, Label l, const OpData& d) {
    if (const OpId tells = first_announcement(j_.k)) {
      const Label teller = j_.g.label_of(tells);
      return j_.refuse(Rule::C10, {l, teller},
                       "{} by TMA {}: {} signals the store to others without waiting "
                       "for TMA",
                       l, name(c.kind), teller ? teller : info(j_.k[tells].opcode).name);
    }
    std::string why = d.opcode != Opcode::StoreView ? "it is not a box of a view"
                      : !j_.s.target->has_tma ? fmt::format("{} has no TMA", j_.s.target.name())
                                              : std::string(why_not_tma_store(j_.k, d));
    // Overwriting and reducing stores may share a store channel, but not a reduce channel.
    if (why.empty() && c.kind == ChannelKind::Reduce && !reduces(l)) why = "it is not a reduction";
    if (why.empty() && c.kind == ChannelKind::Store &&
        std::ranges::all_of(c.payload, [&](Label other) { return reduces(other); }))
      why = "it is a reduction";
    if (!why.empty()) j_.refuse(Rule::C9, {l}, "{} by TMA {}: {}", l, name(c.kind), why);
  }

  void multicast(const Channel& c) {
    if (!c.multicast) return;
    const std::string_view why = c.kind != ChannelKind::Tma ? "only TMA loads are multicast"
                                 : j_.s.tiles.cluster < 2   ? "the tiles have no cluster"
                                                            : "";
    if (!why.empty())
      return j_.refuse(Rule::C7, {c.payload.front()}, "{} multicast: {}", c.name, why);
    const bool has_halves = std::ranges::any_of(
        c.payload, [&](Label l) { return is_multicast_splittable(j_.k, j_.k[j_.op_of(l)]); });
    if (!has_halves)
      j_.refuse(Rule::C7, {c.payload.front()},
                "{} multicast: its boxes cannot be split into halves", c.name);
  }

  void registers(const Channel& c) {
    if (c.slots > kMaxRegisterSlots)
      j_.refuse(Rule::C12, {c.payload.front()}, "{}: registers have at most {} slots", c.name,
                kMaxRegisterSlots);
    for (Label l : c.payload) {
      const std::size_t node = *j_.g.find(l);
      for (const Edge& e : j_.g.edges())
        if (e.from == node && j_.place(node) && j_.place(e.to) &&
            j_.place(node)->role != j_.place(e.to)->role)
          j_.refuse(Rule::C12, {l, j_.label(e.to)}, "{}: {} reads registers of {}", c.name,
                    j_.label(e.to), j_.role_name(j_.place(node)->role));
    }
  }

  void token(const Token& t) {
    const Role& role = j_.s.roles[t.role];
    if (j_.warpgroups(t.role) * role.copies < 2)
      j_.refuse(Rule::C11, {t.first}, "token {}: {} has one warpgroup", t.name, role.name);
  }

  Judging& j_;
};

}  // namespace

void judge_channels(Judging& j) { Channels(j).run(); }

}  // namespace tegula::ir
