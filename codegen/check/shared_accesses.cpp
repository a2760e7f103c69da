// Accesses to shared memory by threads, TMA and wgmma, and in which order they must come.
#include "codegen/check/checker.h"

namespace tegula::codegen {

using namespace ir;
using sim::Detector;

namespace {

constexpr std::int64_t kMatrixRow = 16;  // bytes that one address of stmatrix is for

/// Bytes that an op writes from each of its addresses.
std::int64_t written_bytes(const Kernel& k, const OpData& d) {
  if (d.opcode == Opcode::StMatrix) return kMatrixRow;
  if (d.opcode == Opcode::CpAsync) return d.attrs.i(AttrName::bytes);
  return d.attrs.i(AttrName::width, 1) * size_bytes(k.type(d.operands[1]).dtype());
}

bool is_within(const Threads& some, const Threads& all) { return (some & ~all).none(); }

/// A TMA store must have read its source before threads overwrite it, and they must know; null if
/// they may write.
const char* refuses_store(const Place& p, const Status& s, const Place& write) {
  if (s.age == Status::kOpen)
    return "shared memory is written while a TMA store that was never committed reads it";
  if (!s.done) return "shared memory is written while a TMA store may still read it";
  if ((s.seen >> write.group & 1U) == 0 && !is_within(write.threads, p.threads))
    return "shared memory is written, and no barrier tells that the TMA store has read it";
  return nullptr;
}

const char* refuses_product(const Place& p, const Status& s, const Place& write) {
  if (!s.done) return "shared memory is written while a wgmma may still read it";
  if (p.group != write.group && (s.seen >> write.group & 1U) == 0)
    return "shared memory is written, and no barrier tells that another warpgroup's wgmma has "
           "read it";
  return nullptr;
}

/// Why these bytes may not be written now; null where they may. Of what products read TMA loads
/// other slots: which, the machine form says.
const char* refuses(const Place& p, const Status& s, const Place& write) {
  switch (p.use) {
    case Use::Bulk:
      return refuses_store(p, s, write);
    case Use::Product:
      return write.use == Use::Load ? nullptr : refuses_product(p, s, write);
    case Use::Init:
      return "an mbarrier is written over";
    default:
      return nullptr;
  }
}

bool is_on_mbarrier(Opcode o) {
  using enum Opcode;
  return o == MbarArrive || o == MbarExpectTx || o == MbarWait || o == TmaLoad;
}

/// Whether the threads that execute `op` may still reach an mbarrier: after the last loop over
/// rings, the memory of all mbarriers is free.
bool mbarriers_follow(const Kernel& k, OpId op) {
  RegionId own = k[op].parent;
  OpId loop;
  for (OpId owner = k[own].owner; owner && k[owner].opcode != Opcode::Roles; owner = k[own].owner) {
    const Opcode o = k[owner].opcode;
    if (o == Opcode::For || o == Opcode::While) loop = owner;
    own = k[owner].parent;
  }
  bool follows = false, is_behind = false;
  const auto look = [&](OpId o) {
    is_behind = is_behind || o == op || o == loop;
    follows = follows || (is_behind && is_on_mbarrier(k[o].opcode));
  };
  walk(k, own, look);
  return follows;
}

/// Nothing under way keeps from writing there.
void expect_free(Checker& c, const SharedState& state, const Place& write) {
  for (const Status& s : state.open) {
    const Place& p = c.places.of(s);
    if (p.use == Use::Write || !p.bytes.overlaps(write.bytes)) continue;
    const char* why = refuses(p, s, write);
    if (p.use == Use::Init && !mbarriers_follow(c.k, write.op)) continue;
    if (why && c.addresses.do_touch(p, write))
      c.report(p.use == Use::Init ? Detector::MbarrierMisuse : Detector::EarlyOverwrite, why,
               write.op, p.op);
  }
}

}  // namespace

void visit_write(Checker& c, SharedState& state, OpId op, const ThreadContext& who) {
  const OpData& d = c.k[op];
  const std::int64_t bytes = written_bytes(c.k, d);
  for_groups(who.threads, [&](int g) {
    const Place write = c.place(op, Use::Write, g, who.threads, d.operands[0], bytes);
    if (write.bytes.end == 0) return;
    expect_free(c, state, write);
    state.set({.place = c.places.number(write)});
  });
}

void reach_by_async(Checker& c, const SharedState& state, const Place& there) {
  for (const Status& s : state.open) {
    const Place& p = c.places.of(s);
    if (p.use != Use::Write || !p.bytes.overlaps(there.bytes)) continue;
    if ((s.clean >> there.group & 1U) != 0) continue;
    const bool is_same_thread = there.threads.count() == 1 && p.threads == there.threads;
    if ((is_same_thread && s.fenced) || !c.addresses.do_touch(p, there)) continue;
    if (is_same_thread || (s.seen >> there.group & 1U) != 0)
      c.report(Detector::ProxyFence,
               "TMA or wgmma reaches what threads wrote without fence_proxy_async", there.op, p.op);
    else
      c.report(Detector::AsyncUnordered,
               "TMA or wgmma reaches what threads write, and no barrier orders the two", there.op,
               p.op);
  }
}

void visit_tma_load(Checker& c, SharedState& state, OpId op, const ThreadContext& who) {
  const OpData& d = c.k[op];
  const std::int64_t bytes = c.box_bytes(d.operands[0]);
  for_groups(who.threads, [&](int g) {
    const Place there = c.place(op, Use::Load, g, who.threads, d.operands[1], bytes);
    if (there.bytes.end == 0) return;
    reach_by_async(c, state, there);
    expect_free(c, state, there);
  });
}

void visit_tma_store(Checker& c, SharedState& state, OpId op, const ThreadContext& who) {
  const OpData& d = c.k[op];
  const std::int64_t bytes = c.box_bytes(d.operands[0]);
  for_groups(who.threads, [&](int g) {
    const Place there = c.place(op, Use::Bulk, g, who.threads, d.operands[1], bytes);
    if (there.bytes.end != 0) reach_by_async(c, state, there);
    state.set({.place = c.places.number(there)});
  });
}

void visit_exit(Checker& c, const SharedState& state) {
  for (const Status& s : state.open) {
    const Place& p = c.places.of(s);
    if (s.done || (p.use != Use::Bulk && p.use != Use::Product)) continue;
    const bool is_store = p.use == Use::Bulk;
    if (s.age == Status::kOpen)
      c.report(Detector::AsyncAtExit,
               is_store ? "a TMA store is never committed" : "a wgmma is never committed", p.op);
    else
      c.report(Detector::AsyncAtExit,
               is_store ? "nobody waits until a TMA store has read its source"
                        : "nobody waits for a wgmma",
               p.op);
  }
}

}  // namespace tegula::codegen
