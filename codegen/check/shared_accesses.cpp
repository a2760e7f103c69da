// Ordering rules for shared-memory accesses by threads, TMA and wgmma.
#include "codegen/check/checker.h"

namespace tegula::codegen {

using namespace ir;
using sim::Detector;

namespace {

constexpr std::int64_t kMatrixRow = 16;  // bytes that one address of stmatrix covers

/// Bytes that an op writes at each of its addresses.
std::int64_t written_bytes(const Kernel& k, const OpData& d) {
  if (d.opcode == Opcode::StMatrix) return kMatrixRow;
  if (d.opcode == Opcode::CpAsync) return d.attrs.i(AttrName::bytes);
  return d.attrs.i(AttrName::width, 1) * size_bytes(k.type(d.operands[1]).dtype());
}

bool is_within(const Threads& some, const Threads& all) { return (some & ~all).none(); }

/// Returns why a TMA store forbids the write, or null. The store must have read its source, and the
/// writing threads must be ordered after the read.
const char* refuses_store(const SmemAccess& p, const AccessStatus& s, const SmemAccess& write) {
  if (s.age == AccessStatus::kOpen)
    return "shared memory is written while a TMA store that was never committed reads it";
  if (!s.done) return "shared memory is written while a TMA store may still read it";
  if ((s.seen >> write.group & 1U) == 0 && !is_within(write.threads, p.threads))
    return "shared memory is written, and no barrier orders that after the TMA store's read";
  return nullptr;
}

const char* refuses_product(const SmemAccess& p, const AccessStatus& s, const SmemAccess& write) {
  if (!s.done) return "shared memory is written while a wgmma may still read it";
  if (p.group != write.group && (s.seen >> write.group & 1U) == 0)
    return "shared memory is written, and no barrier orders that after the read of another "
           "warpgroup's wgmma";
  return nullptr;
}

/// Returns why these bytes may not be written now, or null. TMA loads never write slots that MMAs
/// read: the machine form assigns the slots.
const char* refuses(const SmemAccess& p, const AccessStatus& s, const SmemAccess& write) {
  switch (p.use) {
    case AccessKind::TmaStore:
      return refuses_store(p, s, write);
    case AccessKind::Wgmma:
      return write.use == AccessKind::TmaLoad ? nullptr : refuses_product(p, s, write);
    case AccessKind::MbarrierInit:
      return "an mbarrier is overwritten";
    default:
      return nullptr;
  }
}

bool is_on_mbarrier(Opcode o) {
  using enum Opcode;
  return o == MbarArrive || o == MbarExpectTx || o == MbarWait || o == TmaLoad;
}

/// Returns true if the threads that execute `op` may still use an mbarrier: after the last loop
/// over rings, the memory of all mbarriers is free.
bool mbarriers_follow(const Kernel& k, OpId op) {
  RegionId own = k[op].parent;
  OpId loop;
  for (OpId owner = k[own].owner; owner && k[owner].opcode != Opcode::Roles; owner = k[own].owner) {
    const Opcode o = k[owner].opcode;
    if (o == Opcode::For || o == Opcode::While) loop = owner;
    own = k[owner].parent;
  }
  bool follows = false, is_reached = false;
  const auto look = [&](OpId o) {
    is_reached = is_reached || o == op || o == loop;
    follows = follows || (is_reached && is_on_mbarrier(k[o].opcode));
  };
  walk(k, own, look);
  return follows;
}

/// Checks that no access in flight forbids the write.
void expect_free(Checker& c, const SharedState& state, const SmemAccess& write) {
  for (const AccessStatus& s : state.open) {
    const SmemAccess& p = c.places.of(s);
    if (p.use == AccessKind::GenericWrite || !p.bytes.overlaps(write.bytes)) continue;
    const char* why = refuses(p, s, write);
    if (p.use == AccessKind::MbarrierInit && !mbarriers_follow(c.k, write.op)) continue;
    if (why && c.addresses.do_touch(p, write))
      c.report(
          p.use == AccessKind::MbarrierInit ? Detector::MbarrierMisuse : Detector::EarlyOverwrite,
          why, write.op, p.op);
  }
}

}  // namespace

void visit_write(Checker& c, SharedState& state, OpId op, const ThreadContext& context) {
  const OpData& d = c.k[op];
  const std::int64_t bytes = written_bytes(c.k, d);
  for_groups(context.threads, [&](int g) {
    const SmemAccess write =
        c.place(op, AccessKind::GenericWrite, g, context.threads, d.operands[0], bytes);
    if (write.bytes.end == 0) return;
    expect_free(c, state, write);
    state.set({.place = c.places.number(write)});
  });
}

void access_by_async_proxy(Checker& c, const SharedState& state, const SmemAccess& access) {
  for (const AccessStatus& s : state.open) {
    const SmemAccess& p = c.places.of(s);
    if (p.use != AccessKind::GenericWrite || !p.bytes.overlaps(access.bytes)) continue;
    if ((s.clean >> access.group & 1U) != 0) continue;
    const bool is_same_thread = access.threads.count() == 1 && p.threads == access.threads;
    if ((is_same_thread && s.fenced) || !c.addresses.do_touch(p, access)) continue;
    if (is_same_thread || (s.seen >> access.group & 1U) != 0)
      c.report(Detector::ProxyFence,
               "TMA or wgmma reads data that threads wrote without fence_proxy_async", access.op,
               p.op);
    else
      c.report(Detector::AsyncUnordered,
               "TMA or wgmma accesses data that threads write, and no barrier orders the two",
               access.op, p.op);
  }
}

void visit_tma_load(Checker& c, SharedState& state, OpId op, const ThreadContext& context) {
  const OpData& d = c.k[op];
  const std::int64_t bytes = c.box_bytes(d.operands[0]);
  for_groups(context.threads, [&](int g) {
    const SmemAccess access =
        c.place(op, AccessKind::TmaLoad, g, context.threads, d.operands[1], bytes);
    if (access.bytes.end == 0) return;
    access_by_async_proxy(c, state, access);
    expect_free(c, state, access);
  });
}

void visit_tma_store(Checker& c, SharedState& state, OpId op, const ThreadContext& context) {
  const OpData& d = c.k[op];
  const std::int64_t bytes = c.box_bytes(d.operands[0]);
  for_groups(context.threads, [&](int g) {
    const SmemAccess access =
        c.place(op, AccessKind::TmaStore, g, context.threads, d.operands[1], bytes);
    if (access.bytes.end != 0) access_by_async_proxy(c, state, access);
    state.set({.place = c.places.number(access)});
  });
}

void visit_exit(Checker& c, const SharedState& state) {
  for (const AccessStatus& s : state.open) {
    const SmemAccess& p = c.places.of(s);
    if (s.done || (p.use != AccessKind::TmaStore && p.use != AccessKind::Wgmma)) continue;
    const bool is_store = p.use == AccessKind::TmaStore;
    if (s.age == AccessStatus::kOpen)
      c.report(Detector::AsyncAtExit,
               is_store ? "a TMA store is never committed" : "a wgmma is never committed", p.op);
    else
      c.report(Detector::AsyncAtExit,
               is_store ? "no thread waits until a TMA store has read its source"
                        : "no thread waits for a wgmma",
               p.op);
  }
}

}  // namespace tegula::codegen
