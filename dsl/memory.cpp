// Memory by address.
#include "tegula/memory.h"

#include "dsl/elementwise.h"
#include "dsl/hint_attrs.h"
#include "dsl/memory_attrs.h"
#include "dsl/view_access.h"

namespace tegula {

namespace {
constexpr std::string_view kOrder[] = {"relaxed", "acquire", "release", "acq_rel"};
constexpr std::string_view kScope[] = {"cta", "cluster", "gpu", "sys"};
}  // namespace

namespace dsl {

ir::Value pointers_of(Tracer& t, std::string_view what, const Arg& a) {
  if (a.is_literal() || !t.type(a).is_pointer()) {
    const ir::Value v = dsl::operand(t, a);
    fail(ErrorId::pointer_required, a.loc(), {t.origin(v, "the operand")}, what,
         t.kernel.type(v).str());
  }
  return t.value(a);
}

std::string_view scope_name(MemoryScope scope) { return kScope[static_cast<int>(scope)]; }

}  // namespace dsl

using dsl::attrs_of;
using dsl::pointers_of;

namespace {

/// Broadcasts the operands to one shape: if any is a tile, the pointers become one too.
void broadcast_pointers(Tracer& t, std::string_view what, std::vector<ir::Value>& operands,
                        Loc loc) {
  dsl::broadcast_shapes(t, what, operands, loc);
  for (ir::Value v : operands) {
    const auto shape = t.kernel.type(v).shape();
    if (!shape.empty())
      operands[0] = dsl::broadcast_to(t, operands[0], {shape.begin(), shape.end()});
  }
}

/// Every number supports exchange, and the other operations if it supports arithmetic.
void require_atomic(std::string_view what, std::string_view kind, DType d, Loc at) {
  if (d == DType::i1) fail(ErrorId::atomic_type, at, {}, what, name(d));
  if (kind != "xchg") dsl::require_arithmetic(what, d, at);
}

Tile atomic(std::string_view what, const char* kind, const Arg& pointers, const Arg& values,
            const Arg& mask, MemoryOrder order, MemoryScope scope) {
  Tracer& t = Tracer::at(pointers.loc(), what);
  const ir::Value p = pointers_of(t, what, pointers);
  const ir::Type pointee = ir::Type::scalar(t.kernel.type(p).dtype());
  std::vector<ir::Value> operands{p, dsl::operand(t, values, pointee.dtype())};
  require_atomic(what, kind, pointee.dtype(), pointers.loc());
  if (t.grid_done) fail(ErrorId::after_grid, pointers.loc(), {{t.grid_loc, "the grid loop"}});
  if (mask.present()) operands.push_back(dsl::truth(t, mask));
  broadcast_pointers(t, what, operands, pointers.loc());
  return t.tile(t.build.op(Opcode::AtomicRmw, operands,
                           {{AttrName::kind, kind},
                            {AttrName::sem, kOrder[static_cast<int>(order)]},
                            {AttrName::scope, kScope[static_cast<int>(scope)]}}));
}

ir::AttrList order_attrs(MemoryOrder order, MemoryScope scope) {
  ir::AttrList attrs;
  attrs.set(AttrName::sem, kOrder[static_cast<int>(order)]);
  attrs.set(AttrName::scope, kScope[static_cast<int>(scope)]);
  return attrs;
}

void require_order(std::string_view what, MemoryOrder order, MemoryOrder allowed, Loc at) {
  if (order != MemoryOrder::relaxed && order != allowed)
    fail(ErrorId::atomic_order, at, {}, what, kOrder[static_cast<int>(order)]);
}

Tile atomic_bits(std::string_view what, const char* kind, const Arg& pointers, const Arg& values,
                 const Arg& mask, MemoryOrder order, MemoryScope scope) {
  Tracer& t = Tracer::at(pointers.loc(), what);
  const ir::Value p = pointers_of(t, what, pointers);
  dsl::require_integers(what, t.kernel.type(p).dtype(), pointers.loc());
  return atomic(what, kind, pointers, values, mask, order, scope);
}

Tile atomic_on_view(Tracer& t, const char* kind, const dsl::ViewAccessRecord& part,
                    const Arg& values, Loc at) {
  require_atomic(fmt::format("atomic_{}", kind), kind, part.type.dtype(), at);
  const ir::Value given = dsl::stored_value(t, values, part.shape, at),
                  v = dsl::cropped(t, part, dsl::shaped(t, given, part.type));
  if (part.gather) {
    const ir::ViewAddresses a = dsl::addresses(t, part);
    return t.tile(
        t.build.op(Opcode::AtomicRmw, {a.pointers, v, a.inside}, {{AttrName::kind, kind}}));
  }
  ir::AttrList attrs = attrs_of(part.hints);
  attrs.set(AttrName::kind, kind);
  const ir::OpId op = ir::create_access(t.build, Opcode::AtomicView, dsl::box_access(t, part, v),
                                        std::move(attrs), part.type);
  return t.tile(dsl::shaped(t, dsl::cropped(t, part, t.kernel[op].results[0]), part.shape));
}

}  // namespace

Tile load(const Arg& pointers, const Arg& mask, const Arg& fill, Hints hints) {
  Tracer& t = Tracer::at(pointers.loc(), "load");
  std::vector<ir::Value> operands{pointers_of(t, "load", pointers)};
  const DType pointee = t.kernel.type(operands[0]).dtype();
  if (mask.present() || fill.present())
    operands.push_back(dsl::truth(t, mask.present() ? mask : Arg(true).at(pointers.loc())));
  if (fill.present()) operands.push_back(dsl::operand(t, fill, pointee));
  broadcast_pointers(t, "load", operands, pointers.loc());
  const ir::OpId op = t.build.create(Opcode::Load, operands, attrs_of(hints));
  return t.tile(t.kernel[op].results[0]);
}

void store(const Arg& pointers, const Arg& values, const Arg& mask, Hints hints) {
  Tracer& t = Tracer::at(pointers.loc(), "store");
  const ir::Value p = pointers_of(t, "store", pointers);
  ir::Type target = ir::Type::scalar(t.kernel.type(p).dtype());
  for (const Arg* a : {&pointers, &values}) {
    if (a->is_literal() || t.type(*a).shape().size() < target.shape().size()) continue;
    if (!t.type(*a).shape().empty()) target = ir::Type::tile(target.elem(), t.type(*a).shape());
  }
  std::vector<ir::Value> operands{p, dsl::stored_value(t, values, target, pointers.loc())};
  if (mask.present()) operands.push_back(dsl::truth(t, mask));
  broadcast_pointers(t, "store", operands, pointers.loc());
  t.build.create(Opcode::Store, operands, std::span<const ir::Type>(), attrs_of(hints));
}

Tile atomic_load(const Arg& pointers, const Arg& mask, MemoryOrder order, MemoryScope scope) {
  Tracer& t = Tracer::at(pointers.loc(), "atomic_load");
  std::vector<ir::Value> operands{pointers_of(t, "atomic_load", pointers)};
  require_atomic("atomic_load", "xchg", t.kernel.type(operands[0]).dtype(), pointers.loc());
  require_order("atomic_load", order, MemoryOrder::acquire, pointers.loc());
  if (t.grid_done) fail(ErrorId::after_grid, pointers.loc(), {{t.grid_loc, "the grid loop"}});
  if (mask.present()) operands.push_back(dsl::truth(t, mask));
  broadcast_pointers(t, "atomic_load", operands, pointers.loc());
  const ir::OpId op = t.build.create(Opcode::AtomicLoad, operands, order_attrs(order, scope));
  return t.tile(t.kernel[op].results[0]);
}

void atomic_store(const Arg& pointers, const Arg& values, const Arg& mask, MemoryOrder order,
                  MemoryScope scope) {
  Tracer& t = Tracer::at(pointers.loc(), "atomic_store");
  const ir::Value p = pointers_of(t, "atomic_store", pointers);
  const DType pointee = t.kernel.type(p).dtype();
  require_atomic("atomic_store", "xchg", pointee, pointers.loc());
  require_order("atomic_store", order, MemoryOrder::release, pointers.loc());
  if (t.grid_done) fail(ErrorId::after_grid, pointers.loc(), {{t.grid_loc, "the grid loop"}});
  std::vector<ir::Value> operands{p, dsl::operand(t, values, pointee)};
  if (mask.present()) operands.push_back(dsl::truth(t, mask));
  broadcast_pointers(t, "atomic_store", operands, pointers.loc());
  t.build.create(Opcode::AtomicStore, operands, std::span<const ir::Type>(),
                 order_attrs(order, scope));
}

Tile atomic_cas(const Arg& pointers, const Arg& expected, const Arg& desired, const Arg& mask,
                MemoryOrder order, MemoryScope scope) {
  Tracer& t = Tracer::at(pointers.loc(), "atomic_cas");
  const ir::Value p = pointers_of(t, "atomic_cas", pointers);
  const DType pointee = t.kernel.type(p).dtype();
  if (is_bool(pointee) || size_bits(pointee) < 16)
    fail(ErrorId::cas_type, pointers.loc(), {t.origin(p, "the address")}, name(pointee));
  if (t.grid_done) fail(ErrorId::after_grid, pointers.loc(), {{t.grid_loc, "the grid loop"}});
  std::vector<ir::Value> operands{p, dsl::operand(t, expected, pointee),
                                  dsl::operand(t, desired, pointee)};
  if (mask.present()) operands.push_back(dsl::truth(t, mask));
  broadcast_pointers(t, "atomic_cas", operands, pointers.loc());
  const ir::OpId op = t.build.create(Opcode::AtomicCas, operands, order_attrs(order, scope));
  return t.tile(t.kernel[op].results[0]);
}

Tile atomic_add(const Arg& p, const Arg& v, const Arg& mask, MemoryOrder order, MemoryScope scope) {
  return atomic("atomic_add", "add", p, v, mask, order, scope);
}
Tile atomic_max(const Arg& p, const Arg& v, const Arg& mask, MemoryOrder order, MemoryScope scope) {
  return atomic("atomic_max", "max", p, v, mask, order, scope);
}
Tile atomic_min(const Arg& p, const Arg& v, const Arg& mask, MemoryOrder order, MemoryScope scope) {
  return atomic("atomic_min", "min", p, v, mask, order, scope);
}
Tile atomic_add(const ViewTile& target, const Arg& values, std::source_location at) {
  Tracer& t = Tracer::at(at, "atomic_add");
  return atomic_on_view(t, "add", t.access(target), values, at);
}
Tile atomic_max(const ViewTile& target, const Arg& values, std::source_location at) {
  Tracer& t = Tracer::at(at, "atomic_max");
  return atomic_on_view(t, "max", t.access(target), values, at);
}
Tile atomic_min(const ViewTile& target, const Arg& values, std::source_location at) {
  Tracer& t = Tracer::at(at, "atomic_min");
  return atomic_on_view(t, "min", t.access(target), values, at);
}
Tile atomic_xchg(const Arg& p, const Arg& v, const Arg& mask, MemoryOrder order,
                 MemoryScope scope) {
  return atomic("atomic_xchg", "xchg", p, v, mask, order, scope);
}
Tile atomic_and(const Arg& p, const Arg& v, const Arg& mask, MemoryOrder order, MemoryScope scope) {
  return atomic_bits("atomic_and", "and", p, v, mask, order, scope);
}
Tile atomic_or(const Arg& p, const Arg& v, const Arg& mask, MemoryOrder order, MemoryScope scope) {
  return atomic_bits("atomic_or", "or", p, v, mask, order, scope);
}
Tile atomic_xor(const Arg& p, const Arg& v, const Arg& mask, MemoryOrder order, MemoryScope scope) {
  return atomic_bits("atomic_xor", "xor", p, v, mask, order, scope);
}

Tile arrive_and_test_last(const Arg& counter, const Arg& count) {
  Tracer& t = Tracer::at(counter.loc(), "arrive_and_test_last");
  const ir::Value at = pointers_of(t, "arrive_and_test_last", counter);
  const ir::Type type = t.kernel.type(at);
  if (type.is_tile() || type.dtype() != DType::u32)
    fail(ErrorId::counter_type, counter.loc(), {t.origin(at, "the counter")},
         "arrive_and_test_last", type.str());
  if (t.grid_done) fail(ErrorId::after_grid, counter.loc(), {{t.grid_loc, "the grid loop"}});
  const DType integer = dsl::promote_types(t, "arrive_and_test_last", std::span(&count, 1));
  dsl::require_integers("arrive_and_test_last", integer, count.loc());
  const ir::Value n = t.build.cast(dsl::operand(t, count, integer), DType::i32);
  return t.tile(t.build.op(Opcode::ArriveAndTestLast, {at, n}));
}

Tile ptx(std::string_view text, std::string_view constraints, DType result, const Arg& a,
         const Arg& b, const Arg& c) {
  Tracer& t = Tracer::at(a.loc(), "ptx");
  std::vector<ir::Value> operands;
  for (const Arg* x : {&a, &b, &c})
    if (x->present()) operands.push_back(dsl::operand(t, *x));
  dsl::broadcast_shapes(t, "ptx", operands, a.loc());
  ir::Type type = ir::Type::scalar(result);
  for (ir::Value v : operands)
    if (t.kernel.type(v).is_tile()) type = t.kernel.type(v).with_elem({result, false});
  return t.tile(t.build.op(Opcode::AsmElementwise, operands, type,
                           {{AttrName::text, text}, {AttrName::constraints, constraints}}));
}

Tile detail::ptx_with_model(const PlacedText& text, std::string_view constraints, DType result,
                            std::span<const Arg> args,
                            const std::function<Tile(std::span<const Tile>)>& model) {
  const Loc at = text.loc;
  Tracer& t = Tracer::at(at, "ptx");
  std::vector<ir::Value> operands;
  for (const Arg& x : args) operands.push_back(dsl::operand(t, x));
  dsl::broadcast_shapes(t, "ptx", operands, at);
  ir::Type type = ir::Type::scalar(result);
  for (ir::Value v : operands)
    if (t.kernel.type(v).is_tile()) type = t.kernel.type(v).with_elem({result, false});
  std::vector<Tile> tiles;
  for (ir::Value v : operands) tiles.push_back(t.tile(v));
  const ir::Value given = t.value(model(tiles));
  if (t.kernel.type(given).elem() != type.elem())
    fail(ErrorId::ptx_model, at, {t.origin(given, "the model's result")},
         t.kernel.type(given).str(), type.str());
  const auto count = static_cast<std::int64_t>(operands.size());
  operands.push_back(given);
  dsl::broadcast_shapes(t, "ptx", operands, at);
  return t.tile(t.build.op(Opcode::AsmElementwise, operands, type,
                           {{AttrName::text, text.text},
                            {AttrName::constraints, constraints},
                            {AttrName::count, count}}));
}

void barrier(std::source_location at) {
  Tracer& t = Tracer::at(Loc(at), "barrier");
  if (t.grid_done) fail(ErrorId::after_grid, Loc(at), {{t.grid_loc, "the grid loop"}});
  t.build.effect(Opcode::CtaBarrier, {});
}

namespace {

/// Assumes the facts of a conjunction of scalars one by one, so that errors report their numbers.
void assume_each(Tracer& t, ir::Value fact) {
  const ir::OpId def = t.kernel[fact].def;
  if (!def || t.kernel[def].opcode != Opcode::And || !t.kernel.type(fact).is_scalar()) {
    t.build.effect(Opcode::Assume, {fact});
    return;
  }
  const ir::Value facts[] = {t.kernel[def].operands[0], t.kernel[def].operands[1]};
  for (const ir::Value one : facts) assume_each(t, one);
}

}  // namespace

void assume(const Arg& fact) {
  Tracer& t = Tracer::at(fact.loc(), "assume");
  assume_each(t, dsl::truth(t, fact));
}

}  // namespace tegula
