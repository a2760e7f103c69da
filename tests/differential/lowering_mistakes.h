#pragma once
// Mistakes in the lowering of a loop with copies and MMAs in flight: fifteen kinds, each planted at
// any place of a kernel in SIMT form.
#include <algorithm>
#include <functional>
#include <vector>

#include "ir/builder.h"
#include "ir/loop.h"
#include "ir/op.h"

namespace tegula::ir::mistakes {

/// Rows that an iteration of these loops loads.
inline constexpr std::int64_t kIterationRows = 64;

// ---- places
inline bool has_roles(const Kernel& k) {
  return any_op(k, k.body(), [&](OpId op) { return k[op].opcode == Opcode::Roles; });
}
/// The ops that compute, or those that copy; the whole kernel if all warps do both.
inline RegionId part(const Kernel& k, bool computes) {
  if (!has_roles(k)) return k.body();
  const OpId roles =
      ops_where(k, k.body(), [&](OpId op) { return k[op].opcode == Opcode::Roles; }).front();
  return computes ? k[roles].regions.front() : k[roles].regions.back();
}
inline OpId loop_around(const Kernel& k, OpId op) {
  while (op && k[op].opcode != Opcode::For) op = k[k[op].parent].owner;
  return op;
}
using Wanted = std::function<bool(OpId)>;
inline std::vector<OpId> all(
    const Kernel& k, bool computes, Opcode opcode,
    const Wanted& wanted = [](OpId) { return true; }) {
  return ops_where(k, part(k, computes),
                   [&](OpId op) { return k[op].opcode == opcode && wanted(op); });
}
/// The nth one.
inline OpId nth(const std::vector<OpId>& ops, std::size_t n) {
  return n < ops.size() ? ops[n] : OpId();
}
inline OpId before(const Kernel& k, OpId op, Opcode opcode) {
  while (op && k[op].opcode != opcode) op = k[op].prev;
  return op;
}

// ---- edits
/// Erases the op if there is one.
inline bool erase(Kernel& k, OpId op) {
  if (op) k.erase(op);
  return bool(op);
}

/// Moves the op before another op of its region, with the pure ops that compute its operands.
inline bool hoist(Kernel& k, OpId op, OpId where) {
  std::vector<OpId> moved{op};
  for (std::size_t i = 0; i < moved.size(); ++i)
    for (Value v : k[moved[i]].operands) {
      const OpId def = k[v].def;
      bool is_later = false;
      for (OpId at = where; at && at != moved[i] && !is_later; at = k[at].next)
        is_later = at == def;
      if (!is_later) continue;
      if (!info(k[def].opcode).has(kPure)) return false;
      moved.push_back(def);
    }
  for (OpId at : moved) {  // operands before their users
    if (at == where) continue;
    k.unlink(at);
    k.insert_before(where, at);
    where = at;
  }
  return true;
}

inline void set_operand(Kernel& k, OpId op, std::size_t operand, Opcode opcode,
                        std::int64_t number) {
  Builder b(k);
  b.before(op);
  const Value changed = b.op(opcode, {k[op].operands[operand], b.i32(number)});
  k[op].operands[operand] = changed;
}

inline bool add_to_count(Kernel& k, OpId wait, std::int64_t more) {
  if (wait) k[wait].attrs.set(AttrName::count, k[wait].attrs.i(AttrName::count) + more);
  return bool(wait);
}

// ---- fifteen kinds
/// Plants the mistake at the nth place. Returns false if there are fewer.
using Plant = bool (*)(Kernel&, std::size_t n);

inline bool early_release(Kernel& k, std::size_t n) {
  const OpId release = nth(all(k, true, Opcode::MbarArrive), n);
  const OpId wait = release ? before(k, release, Opcode::WgmmaWait) : OpId();
  return wait && hoist(k, release, wait);
}
inline bool no_release(Kernel& k, std::size_t n) {
  return erase(
      k,
      nth(all(k, true, Opcode::MbarArrive, [&](OpId op) { return bool(loop_around(k, op)); }), n));
}
inline bool read_before_full(Kernel& k, std::size_t n) {
  return erase(k, nth(all(k, true, Opcode::MbarWait), n));
}
inline bool result_in_flight(Kernel& k, std::size_t n) {
  const auto in_loop = [&](OpId op) { return bool(loop_around(k, op)); };
  return add_to_count(k, nth(all(k, true, Opcode::WgmmaWait, in_loop), n), 1);
}
inline bool wrong_phase(Kernel& k, bool computes, std::size_t n) {
  const OpId wait = nth(all(k, computes, Opcode::MbarWait), n);
  if (wait) set_operand(k, wait, 1, Opcode::Xor, 1);
  return bool(wait);
}
inline bool wrong_phase_of_full(Kernel& k, std::size_t n) { return wrong_phase(k, true, n); }
inline bool wrong_phase_of_empty(Kernel& k, std::size_t n) {
  return has_roles(k) && wrong_phase(k, false, n);
}
inline bool filled_before_free(Kernel& k, std::size_t n) {
  return has_roles(k) && erase(k, nth(all(k, false, Opcode::MbarWait), n));
}
inline bool few_bytes(Kernel& k, std::size_t n) {
  const OpId op = nth(all(k, false, Opcode::MbarExpectTx), n);
  if (op) k[op].attrs.set(AttrName::bytes, k[op].attrs.i(AttrName::bytes) / 2);
  return bool(op);
}
inline bool few_arrivals(Kernel& k, std::size_t n) {
  const OpId op =
      nth(ops_where(k, k.body(),
                    [&](OpId o) {
                      return k[o].opcode == Opcode::MbarInit && k[o].attrs.i(AttrName::count) > 1;
                    }),
          n);
  if (op) k[op].attrs.set(AttrName::count, k[op].attrs.i(AttrName::count) / 2);
  return bool(op);
}
inline bool no_fence(Kernel& k, std::size_t n) {
  return erase(k, nth(all(k, true, Opcode::FenceProxyAsync,
                          [&](OpId op) { return k[op].parent != k.body(); }),
                      n));
}
inline bool is_store(const Kernel& k, OpId op) {
  return k[op].is(Opcode::StShared, Opcode::StMatrix);
}
/// Erases the barrier after the stores of a tile.
inline bool no_barrier(Kernel& k, std::size_t n) {
  return erase(k, nth(all(k, true, Opcode::BarSync,
                          [&](OpId op) {
                            OpId at = k[op].prev;
                            while (at && k[at].opcode != Opcode::BarSync && !is_store(k, at))
                              at = k[at].prev;
                            return at && is_store(k, at);
                          }),
                      n));
}
/// Makes a descriptor address the next slot.
inline bool other_slot_is_read(Kernel& k, std::size_t n) {
  constexpr std::int64_t kFewestBytes = 1024;
  const OpId address = nth(all(k, true, Opcode::Mul,
                               [&](OpId op) {
                                 const OpId bytes = k[k[op].operands[1]].def;
                                 return k[op].parent == k[k[op].operands[0]].region && bytes &&
                                        k[bytes].attrs.i(AttrName::value) >= kFewestBytes;
                               }),
                           n);
  if (address) set_operand(k, address, 0, Opcode::Xor, 1);
  return bool(address);
}
inline bool other_iteration_is_loaded(Kernel& k, std::size_t n) {
  const OpId load =
      nth(all(k, false, Opcode::TmaLoad, [&](OpId op) { return bool(loop_around(k, op)); }), n);
  if (!load) return false;
  const OpId loop = loop_around(k, load);
  const Value iteration = k[k[loop].regions[0]].args[0];
  const std::function<bool(Value)> originates_from = [&](Value v) {
    const OpId def = k[v].def;
    return v == iteration || (def && loop_around(k, def) == loop &&
                              std::ranges::any_of(k[def].operands, originates_from));
  };
  const auto& operands = k[load].operands;
  constexpr std::ptrdiff_t kFirstCoordinate = 3;
  const auto at =
      std::find_if(operands.begin() + kFirstCoordinate, operands.end(), originates_from);
  if (at == operands.end()) return false;
  set_operand(k, load, static_cast<std::size_t>(at - operands.begin()), Opcode::Add,
              kIterationRows);
  return true;
}
/// Loses the epilogue of the loop: its MMAs, or the wait for those of the last iteration.
inline bool lost_epilogue(Kernel& k, std::size_t n) {
  const OpId wait = nth(all(k, true, Opcode::WgmmaWait,
                            [&](OpId op) {
                              return !loop_around(k, op) && any_op(k, k[op].parent, [&](OpId o) {
                                return k[o].opcode == Opcode::For;
                              });
                            }),
                        n);
  if (!wait) return false;
  const OpId mma = k[k[wait].operands.front()].def;
  if (!mma || k[mma].opcode != Opcode::Wgmma) return add_to_count(k, wait, 1);
  const OpId fence = k[k[mma].operands[0]].def;
  if (!fence || k[fence].opcode != Opcode::WgmmaFence) return false;
  const Value sum = k[fence].operands[0];
  k.replace_all_uses(k[wait].results[0], sum);
  return true;
}
/// A slot or its phase, which the loop carries.
inline bool position_stays(Kernel& k, std::size_t n) {
  for (bool computes : {true, false})
    for (OpId loop : all(k, computes, Opcode::For)) {
      const auto carries = body_carries(k, loop);
      const auto nexts = loop_nexts(k, loop);
      for (std::size_t i = 0; i < carries.size(); ++i) {
        const OpId next = k[nexts[i]].def;
        const bool is_position = k.type(carries[i]) == Type::scalar(DType::i32) && next &&
                                 k[next].is(Opcode::Select, Opcode::Xor);
        if (!is_position || n-- > 0) continue;
        const Value same = carries[i];
        nexts[i] = same;
        return true;
      }
    }
  return false;
}

struct Kind {
  const char* name;
  Plant plant;
};
inline const Kind kKinds[] = {
    {"released before its last reader is complete", early_release},
    {"not released", no_release},
    {"read before it is full", read_before_full},
    {"a result is taken while its MMA is in flight", result_in_flight},
    {"waits for the wrong phase of a full slot", wrong_phase_of_full},
    {"waits for the wrong phase of an empty slot", wrong_phase_of_empty},
    {"filled before it is free", filled_before_free},
    {"too few bytes are expected", few_bytes},
    {"too few arrivals are counted", few_arrivals},
    {"no fence between the proxies", no_fence},
    {"no barrier after stores", no_barrier},
    {"another slot is read", other_slot_is_read},
    {"another iteration is loaded", other_iteration_is_loaded},
    {"the epilogue is lost", lost_epilogue},
    {"a position is not carried on", position_stays},
};

}  // namespace tegula::ir::mistakes
