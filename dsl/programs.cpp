// Programs that wait for one another, and queries about where they run.
#include "tegula/programs.h"

#include "dsl/elementwise.h"
#include "dsl/memory_attrs.h"
#include "tegula/math.h"

namespace tegula {
namespace {

void refuse_behind_grid(Tracer& t, Loc at) {
  if (t.grid_done) fail(ErrorId::after_grid, at, {{t.grid_loc, "the grid loop"}});
}

Tile read_register(std::string_view what, const char* kind, DType type, std::source_location at) {
  Tracer& t = Tracer::at(at, what);
  refuse_behind_grid(t, at);
  return t.tile(
      t.build.op(Opcode::ReadRegister, {}, ir::Type::scalar(type), {{AttrName::kind, kind}}));
}

}  // namespace

void wait_until(const Arg& pointer, const Arg& value, Until until, MemoryScope scope) {
  Tracer& t = Tracer::at(pointer.loc(), "wait_until");
  const ir::Value p = dsl::pointers_of(t, "wait_until", pointer);
  const ir::Type type = t.kernel.type(p);
  if (type.is_tile() || !is_integer(type.dtype()) || size_bits(type.dtype()) < 32)
    fail(ErrorId::wait_type, pointer.loc(), {t.origin(p, "the address")}, type.str());
  refuse_behind_grid(t, pointer.loc());
  const ir::Value wanted = dsl::operand(t, value, type.dtype());
  t.build.effect(Opcode::WaitUntil, {p, t.build.cast(wanted, type.dtype())},
                 {{AttrName::kind, until == Until::equal ? "eq" : "ge"},
                  {AttrName::scope, dsl::scope_name(scope)}});
}

Tile sm_id(std::source_location at) { return read_register("sm_id", "smid", DType::u32, at); }
Tile sm_clock(std::source_location at) {
  return read_register("sm_clock", "clock", DType::u64, at);
}
Tile global_timer(std::source_location at) {
  return read_register("global_timer", "globaltimer", DType::u64, at);
}

Tile ticket(const Arg& counter, const Arg& count) {
  Tracer& t = Tracer::at(counter.loc(), "ticket");
  const ir::Value at = dsl::pointers_of(t, "ticket", counter);
  const ir::Type type = t.kernel.type(at);
  if (type.is_tile() || type.dtype() != DType::u32)
    fail(ErrorId::counter_type, counter.loc(), {t.origin(at, "the counter")}, "ticket", type.str());
  refuse_behind_grid(t, counter.loc());
  const ir::Value last = t.value(cast<u32>(Arg(cast<i32>(count) - 1)));
  return cast<i32>(t.tile(
      t.build.op(Opcode::AtomicRmw, {at, last},
                 {{AttrName::kind, "inc"}, {AttrName::sem, "relaxed"}, {AttrName::scope, "gpu"}})));
}

void Turnstile::leave(const Arg& turn, const Arg& count) const {
  const Tile next = cast<u32>(turn) + 1;
  atomic_store(counter_, where(next == cast<u32>(count), 0, next));
}

}  // namespace tegula
