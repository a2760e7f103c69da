// Sixty mistakes that the lowering of a Schedule could make, planted in the code of the twelve
// shapes of loops: fifteen kinds, each in four places. The check of the simt form or the simulator
// must catch each, by a finding or by a wrong result.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <functional>

#include "codegen/check/simt_check.h"
#include "ir/builder.h"
#include "ir/loop.h"
#include "ir/op.h"
#include "tests/compiled.h"
#include "tests/property/loop_shapes.h"

namespace tegula::ir::schedule_bugs_test {
namespace {

/// More than any ring has slots.
constexpr int kIterations = 9;
constexpr std::size_t kPlacesOfKind = 4, kMistakes = 60, kFewestCaught = 58;

// ---- places
bool has_roles(const Kernel& k) {
  return any_op(k, k.body(), [&](OpId op) { return k[op].opcode == Opcode::Roles; });
}
/// The ops that compute, or those that copy; the whole kernel where all warps do both.
RegionId part(const Kernel& k, bool computes) {
  if (!has_roles(k)) return k.body();
  const OpId roles =
      ops_where(k, k.body(), [&](OpId op) { return k[op].opcode == Opcode::Roles; }).front();
  return computes ? k[roles].regions.front() : k[roles].regions.back();
}
OpId loop_around(const Kernel& k, OpId op) {
  while (op && k[op].opcode != Opcode::For) op = k[k[op].parent].owner;
  return op;
}
using Wanted = std::function<bool(OpId)>;
std::vector<OpId> all(
    const Kernel& k, bool computes, Opcode opcode,
    const Wanted& wanted = [](OpId) { return true; }) {
  return ops_where(k, part(k, computes),
                   [&](OpId op) { return k[op].opcode == opcode && wanted(op); });
}
/// The nth one.
OpId nth(const std::vector<OpId>& ops, std::size_t n) { return n < ops.size() ? ops[n] : OpId(); }
OpId before(const Kernel& k, OpId op, Opcode opcode) {
  while (op && k[op].opcode != opcode) op = k[op].prev;
  return op;
}

// ---- edits
/// Erases the op if there is one.
bool erase(Kernel& k, OpId op) {
  if (op) k.erase(op);
  return bool(op);
}

/// Moves the op in front of another one of its region, with the pure ops that make what it reads.
bool hoist(Kernel& k, OpId op, OpId where) {
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
  for (OpId at : moved) {  // what is read before what reads it
    if (at == where) continue;
    k.unlink(at);
    k.insert_before(where, at);
    where = at;
  }
  return true;
}

void set_operand(Kernel& k, OpId op, std::size_t operand, Opcode opcode, std::int64_t number) {
  Builder b(k);
  b.before(op);
  const Value changed = b.op(opcode, {k[op].operands[operand], b.i32(number)});
  k[op].operands[operand] = changed;
}

bool add_to_count(Kernel& k, OpId wait, std::int64_t more) {
  if (wait) k[wait].attrs.set(AttrName::count, k[wait].attrs.i(AttrName::count) + more);
  return bool(wait);
}

// ---- fifteen kinds
/// Plants the mistake in the nth place; false if there are fewer.
using Plant = bool (*)(Kernel&, std::size_t n);

bool early_release(Kernel& k, std::size_t n) {
  const OpId release = nth(all(k, true, Opcode::MbarArrive), n);
  const OpId wait = release ? before(k, release, Opcode::WgmmaWait) : OpId();
  return wait && hoist(k, release, wait);
}
bool no_release(Kernel& k, std::size_t n) {
  return erase(
      k,
      nth(all(k, true, Opcode::MbarArrive, [&](OpId op) { return bool(loop_around(k, op)); }), n));
}
bool read_before_full(Kernel& k, std::size_t n) {
  return erase(k, nth(all(k, true, Opcode::MbarWait), n));
}
bool result_in_flight(Kernel& k, std::size_t n) {
  const auto in_loop = [&](OpId op) { return bool(loop_around(k, op)); };
  return add_to_count(k, nth(all(k, true, Opcode::WgmmaWait, in_loop), n), 1);
}
bool wrong_phase(Kernel& k, bool computes, std::size_t n) {
  const OpId wait = nth(all(k, computes, Opcode::MbarWait), n);
  if (wait) set_operand(k, wait, 1, Opcode::Xor, 1);
  return bool(wait);
}
bool wrong_phase_of_full(Kernel& k, std::size_t n) { return wrong_phase(k, true, n); }
bool wrong_phase_of_empty(Kernel& k, std::size_t n) {
  return has_roles(k) && wrong_phase(k, false, n);
}
bool filled_before_free(Kernel& k, std::size_t n) {
  return has_roles(k) && erase(k, nth(all(k, false, Opcode::MbarWait), n));
}
bool few_bytes(Kernel& k, std::size_t n) {
  const OpId op = nth(all(k, false, Opcode::MbarExpectTx), n);
  if (op) k[op].attrs.set(AttrName::bytes, k[op].attrs.i(AttrName::bytes) / 2);
  return bool(op);
}
bool few_arrivals(Kernel& k, std::size_t n) {
  const OpId op =
      nth(ops_where(k, k.body(),
                    [&](OpId o) {
                      return k[o].opcode == Opcode::MbarInit && k[o].attrs.i(AttrName::count) > 1;
                    }),
          n);
  if (op) k[op].attrs.set(AttrName::count, k[op].attrs.i(AttrName::count) / 2);
  return bool(op);
}
bool no_fence(Kernel& k, std::size_t n) {
  return erase(k, nth(all(k, true, Opcode::FenceProxyAsync,
                          [&](OpId op) { return k[op].parent != k.body(); }),
                      n));
}
bool is_store(const Kernel& k, OpId op) { return k[op].is(Opcode::StShared, Opcode::StMatrix); }
/// The barrier behind the stores of a tile.
bool no_barrier(Kernel& k, std::size_t n) {
  return erase(k, nth(all(k, true, Opcode::BarSync,
                          [&](OpId op) {
                            OpId at = k[op].prev;
                            while (at && k[at].opcode != Opcode::BarSync && !is_store(k, at))
                              at = k[at].prev;
                            return at && is_store(k, at);
                          }),
                      n));
}
/// Descriptors of the slot beside.
bool other_slot_is_read(Kernel& k, std::size_t n) {
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
bool other_iteration_is_loaded(Kernel& k, std::size_t n) {
  const OpId load =
      nth(all(k, false, Opcode::TmaLoad, [&](OpId op) { return bool(loop_around(k, op)); }), n);
  if (!load) return false;
  const OpId loop = loop_around(k, load);
  const Value iteration = k[k[loop].regions[0]].args[0];
  const std::function<bool(Value)> comes_from = [&](Value v) {
    const OpId def = k[v].def;
    return v == iteration ||
           (def && loop_around(k, def) == loop && std::ranges::any_of(k[def].operands, comes_from));
  };
  const auto& operands = k[load].operands;
  constexpr std::ptrdiff_t kFirstCoordinate = 3;
  const auto at = std::find_if(operands.begin() + kFirstCoordinate, operands.end(), comes_from);
  if (at == operands.end()) return false;
  set_operand(k, load, static_cast<std::size_t>(at - operands.begin()), Opcode::Add, test::kSide);
  return true;
}
/// Loses the epilogue of the loop: its MMAs, or the wait for those of the last iteration.
bool lost_epilogue(Kernel& k, std::size_t n) {
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
bool position_stays(Kernel& k, std::size_t n) {
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
const Kind kKinds[] = {
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
    {"no barrier behind stores", no_barrier},
    {"another slot is read", other_slot_is_read},
    {"another iteration is loaded", other_iteration_is_loaded},
    {"the epilogue is lost", lost_epilogue},
    {"a position is not carried on", position_stays},
};

/// A shape's code, and what it computes.
struct Program {
  test::LoopShape shape;
  runtime::Compilation compiled;
  std::vector<std::vector<double>> want;

  std::string how_caught(const Kernel& simt, std::uint64_t orders) const {
    if (const auto faults = codegen::find_simt_faults(simt); !faults.empty())
      return "the check: " + std::string(sim::name(faults.front().kind));
    for (std::uint64_t seed = 1; seed <= orders; ++seed)
      if (const auto how = shape.fault(compiled.tile, simt, kIterations, want, seed); !how.empty())
        return how;
    return "";
  }
};

std::vector<Program> programs() {
  std::vector<Program> all;
  for (test::LoopShape& shape : test::loop_shapes()) {
    Program& p = all.emplace_back();
    p.want = shape.wanted(kIterations);
    Kernel tile = shape.traced();
    tile.info.target = Target("sm_90a");
    runtime::CompileRequest request;
    request.device = Device::sim();
    request.target = tile.info.target;
    p.compiled = test::optimized(tile, request);
    p.shape = std::move(shape);
  }
  return all;
}

class Mistakes {
 public:
  std::size_t planted = 0, caught = 0;

  /// In the first place of each shape, from the one on that the kind's number says, then in the
  /// second places.
  void plant(const Kind& kind, const std::vector<Program>& programs, std::size_t first) {
    std::size_t places = 0;
    for (std::size_t n = 0; n < kPlacesOfKind; ++n)
      for (std::size_t i = 0; i < programs.size() && places < kPlacesOfKind; ++i)
        places += plant_one(kind, programs[(first + i) % programs.size()], n);
    EXPECT_EQ(places, kPlacesOfKind) << kind.name;
  }

 private:
  bool plant_one(const Kind& kind, const Program& p, std::size_t n) {
    Kernel k = clone(p.compiled.simt);
    if (!kind.plant(k, n)) return false;
    const std::string how = p.how_caught(k, 8);
    std::printf("%-45s %-24s %s\n", kind.name, p.shape.name.c_str(), how.c_str());
    ++planted;
    caught += !how.empty();
    return true;
  }
};

TEST(ScheduleBugs, AreCaught) {
  const std::vector<Program> all = programs();
  for (const Program& p : all) ASSERT_EQ(p.how_caught(p.compiled.simt, 2), "") << p.shape.name;
  Mistakes mistakes;
  std::size_t first = 0;
  for (const Kind& kind : kKinds) mistakes.plant(kind, all, first++);
  EXPECT_EQ(mistakes.planted, kMistakes);
  EXPECT_GE(mistakes.caught, kFewestCaught);
}

}  // namespace
}  // namespace tegula::ir::schedule_bugs_test
