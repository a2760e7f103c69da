// Mistakes that the compiler could make where programs hand memory to one another, and where it
// trusts what a kernel states: each must show, by a finding or by wrong values.
#include <gtest/gtest.h>

#include <cstdio>

#include "ir/builder.h"
#include "ir/eval/eval.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "runtime/launch_args.h"
#include "tests/differential/nth_op.h"
#include "tests/differential/planted_program.h"
#include "tests/differential/programs_between.h"
#include "tests/differential/waiting_programs.h"

namespace tegula::order_between_bugs_test {
namespace {

using namespace ir;
using test::nth_op;

// ---- edits --------------------------------------------------------------------------------------
test::WantedOp ordered(const char* sem) {
  return [sem](const OpData& d) { return d.attrs.s(AttrName::sem) == sem; };
}
void set_order(ir::Kernel& k, Opcode opcode, const char* from, const char* to) {
  k[nth_op(k, opcode, 0, ordered(from))].attrs.set(AttrName::sem, to);
}
void narrow(ir::Kernel& k, const char* sem) {
  k[nth_op(k, Opcode::AtomGlobal, 0, ordered(sem))].attrs.set(AttrName::scope, "cta");
}
/// The store comes after the op.
void store_behind(ir::Kernel& k, OpId store, OpId op) {
  k.unlink(store);
  test::insert_after(k, op, store);
}
/// The loop's atomic operation becomes a load of its word.
void wait_by_a_load(ir::Kernel& k) {
  const OpId atom = nth_op(k, Opcode::AtomGlobal, 0, ordered("acquire"));
  Builder b(k, atom);
  const ir::Value word = k[atom].operands[0], old = k[atom].results[0];
  const ir::Value loaded =
      b.op(Opcode::LdGlobal, {word}, k.type(old), {{AttrName::width, std::int64_t{1}}});
  k.replace_all_uses(old, loaded);
  k.erase(atom);
}
void erase_all(ir::Kernel& k, Opcode opcode) {
  std::vector<OpId> all;
  walk(k, k.body(), [&](OpId op) {
    if (k[op].opcode == opcode) all.push_back(op);
  });
  for (const OpId op : all) k.erase(op);
}
OpId release_of(const ir::Kernel& k) { return nth_op(k, Opcode::AtomicRmw, 0, ordered("release")); }

struct Fault {
  const char* name;
  test::MakeProgram program;
  const char* pass;  ///< the one that makes the mistake
  void (*plant)(ir::Kernel&);
  const char* how = "";  ///< caught by that; by anything if empty
};

constexpr const char* kMemory = "memory_order";
constexpr const char* kLower = "lower_simt";

const Fault kFaults[] = {
    {"a lock taken without acquire", test::lock, kLower,
     [](ir::Kernel& k) { set_order(k, Opcode::AtomGlobal, "acquire", "relaxed"); }, "global-race"},
    {"a lock given back without release", test::lock, kLower,
     [](ir::Kernel& k) { set_order(k, Opcode::AtomGlobal, "release", "relaxed"); }, "global-race"},
    {"a lock for the own CTA alone", test::lock, kLower,
     [](ir::Kernel& k) { narrow(k, "release"); }, "scope"},
    {"a lock taken for the own CTA alone", test::lock, kLower,
     [](ir::Kernel& k) { narrow(k, "acquire"); }, "scope"},
    {"a lock given back in front of the sum's store", test::lock, kMemory,
     [](ir::Kernel& k) { store_behind(k, nth_op(k, Opcode::StoreView, 0), release_of(k)); }},
    {"a flag awaited by a load", test::ticket_and_flag, kLower, wait_by_a_load, "global-race"},
    {"a flag of two awaited by a load", test::look_back, kLower, wait_by_a_load},
    {"a row's flag raised in front of its store", test::ticket_and_flag, kMemory,
     [](ir::Kernel& k) { store_behind(k, nth_op(k, Opcode::StoreView, 0), release_of(k)); }},
    {"a sum's flag raised in front of its store", test::look_back, kMemory,
     [](ir::Kernel& k) { store_behind(k, nth_op(k, Opcode::Store, 0), release_of(k)); }},
    {"a flag seen without acquire", test::ticket_and_flag, kLower,
     [](ir::Kernel& k) { set_order(k, Opcode::AtomGlobal, "acquire", "relaxed"); }, "global-race"},
    {"arrivals that order nothing", test::arriver_chain, kLower,
     [](ir::Kernel& k) {
       walk(k, k.body(), [&](OpId op) {
         if (k[op].opcode == Opcode::AtomGlobal) k[op].attrs.set(AttrName::sem, "relaxed");
       });
     },
     "global-race"},
    {"a turn taken without acquire", test::turnstile, kLower,
     [](ir::Kernel& k) { set_order(k, Opcode::LdGlobal, "acquire", "relaxed"); }, "global-race"},
    {"a turn given away without release", test::turnstile, kLower,
     [](ir::Kernel& k) { set_order(k, Opcode::StGlobal, "release", "relaxed"); }, "global-race"},
    {"a turn awaited by a plain load", test::turnstile, kLower,
     [](ir::Kernel& k) {
       const OpId load = nth_op(k, Opcode::LdGlobal, 0, ordered("acquire"));
       k[load].attrs.erase(AttrName::sem);
     },
     "global-race"},
    {"a turn given away in front of the store", test::turnstile, kMemory,
     [](ir::Kernel& k) {
       store_behind(k, nth_op(k, Opcode::StoreView, 0), nth_op(k, Opcode::AtomicStore, 0));
     }},
    {"a lock swapped without acquire", test::cas_lock, kLower,
     [](ir::Kernel& k) {
       set_order(k, Opcode::CasGlobal, "acquire", "relaxed");
       set_order(k, Opcode::LdGlobal, "acquire", "relaxed");
     },
     "global-race"},
    {"arrivals without the barriers of the program", test::arriver_chain, kLower,
     [](ir::Kernel& k) { erase_all(k, Opcode::BarSync); }},
};

TEST(OrderBetweenBugs, EachIsCaught) {
  int caught = 0;
  for (const Fault& fault : kFaults) {
    SCOPED_TRACE(fault.name);
    const test::PlantedProgram p(fault.program);
    const auto nothing = [](std::string_view, ir::Kernel&, bool) {};
    ASSERT_EQ(p.how_caught(p.compile(nothing)), "") << "without the fault";
    const ir::Kernel k = p.compile([&](std::string_view pass, ir::Kernel& now, bool is_behind) {
      if (!is_behind || pass != fault.pass) return;
      const std::string before = print(now);
      fault.plant(now);
      EXPECT_NE(print(now), before) << "changes nothing";
      verify_or_throw(now, "planting a fault");
    });
    const std::string how = p.how_caught(k);
    std::printf("%-52s %-20s %s\n", fault.name, fault.pass,
                how.empty() ? "NOT CAUGHT" : how.c_str());
    if (*fault.how != '\0') {
      EXPECT_EQ(how, fault.how);
    }
    caught += how.empty() ? 0 : 1;
  }
  std::printf("%zu planted, %d caught\n", std::size(kFaults), caught);
  // Setting the sum's flag before its store is not detected: the next program reads it later by
  // chance.
  EXPECT_GE(caught, 16);
}

/// Findings of interpreter and simulator for a kernel that states that its steps are independent.
TEST(OrderBetweenBugs, StepsThatAreStatedToBeIndependent) {
  const test::PlantedProgram p(test::recurrence_shifted);
  const auto state = [](ir::Kernel& k) {
    k[nth_op(k, Opcode::For, 0)].attrs.set(AttrName::loop, "independent");
  };
  bool is_stated = false;
  const ir::Kernel simt = p.compile([&](std::string_view, ir::Kernel& k, bool) {
    if (!is_stated) state(k);
    is_stated = true;
  });
  EXPECT_EQ(p.how_caught(simt), "program-race");
  ir::Kernel tile = clone(p.tile());
  const test::MemoryProgram on_cpu = test::recurrence_shifted(Device::cpu());
  std::vector<runtime::LaunchArg> args;
  for (const Tensor& t : on_cpu.args) args.push_back({&t, 0});
  EXPECT_TRUE(evaluate(tile, runtime::eval_args(tile, args)).clean());
  state(tile);
  const EvalReport report = evaluate(tile, runtime::eval_args(tile, args));
  ASSERT_FALSE(report.clean());
  EXPECT_EQ(report.findings[0].kind, FindingKind::StepRace) << report.str();
}

}  // namespace
}  // namespace tegula::order_between_bugs_test
