// Implements grid barriers by a counter that each program increments and waits for.
//
//   grid_barrier   ->   before = atomic_rmw counter, 1 [add, release]
//                       wait_until counter, (before / programs + 1) * programs
//
// The counter's previous value determines the number of the barrier: all programs must have arrived
// at one barrier before any arrives at the next. The last program to finish resets the counter to
// 0.
#include "ir/builder.h"
#include "ir/pipeline.h"

namespace tegula::ir {
namespace {

constexpr const char* kScope = "gpu";

class GridBarriers {
 public:
  GridBarriers(Kernel& k, std::vector<OpId> barriers) : k_(k), barriers_(std::move(barriers)) {
    AttrList counter;
    counter.set(AttrName::component, "counter");
    counter_ = k.add_param("grid_counter", Type::pointer(DType::u32), counter);
  }

  void run() {
    for (OpId op : barriers_) {
      Builder b(k_, op);
      meet(b);
      k_.erase(op);
    }
    Builder b(k_);
    b.loc = k_[k_.terminator(k_.launch())].loc;
    if (const OpId yield = k_.terminator(k_.body())) b.before(yield);
    clear(b);
    // Any number of programs can do the work; the launch uses the number that is resident at once.
    k_.info.persistent = true;
  }

 private:
  Value programs(Builder& b) const {
    return b.op(Opcode::NumPrograms, {}, Type::scalar(DType::i32), {{AttrName::axis, 0}});
  }
  Value number(Builder& b, std::int64_t n) const { return b.constant(Type::scalar(DType::u32), n); }

  void meet(Builder& b) const {
    const Value all = b.cast(programs(b), DType::u32);
    const Value before =
        b.op(Opcode::AtomicRmw, {counter_, number(b, 1)},
             {{AttrName::kind, "add"}, {AttrName::sem, "release"}, {AttrName::scope, kScope}});
    const Value target = b.mul(b.add(b.div(before, all), number(b, 1)), all);
    b.effect(Opcode::WaitUntil, {counter_, target},
             {{AttrName::kind, "ge"}, {AttrName::scope, kScope}});
  }

  void clear(Builder& b) const {
    const Value ends = b.op(Opcode::AddPtr, {counter_, b.i32(1)});
    const Value is_last = b.op(Opcode::ArriveAndTestLast, {ends, programs(b)});
    Builder last(k_, k_[b.make_if(is_last, {})].regions[0]);
    last.loc = b.loc;
    last.effect(Opcode::AtomicStore, {counter_, number(last, 0)},
                {{AttrName::sem, "relaxed"}, {AttrName::scope, kScope}});
  }

  Kernel& k_;
  std::vector<OpId> barriers_;
  Value counter_;
};

}  // namespace

bool expand_grid_barriers(Kernel& kernel, PassContext&) {
  std::vector<OpId> found = ops_where(
      kernel, kernel.body(), [&](OpId op) { return kernel[op].opcode == Opcode::GridBarrier; });
  if (found.empty()) return false;
  GridBarriers(kernel, std::move(found)).run();
  return true;
}

}  // namespace tegula::ir
