// Loads, stores, atomics and copies. Unconditional accesses without cache attributes are LLVM loads
// and stores; all others are inline PTX, predicated rather than branched around.
#include "codegen/llvm/emitter.h"

namespace tegula::codegen::llvm_backend {
namespace {

using ptx::Access;
using ptx::Space;

/// LLVM 19 has no address space for the shared memory of a cluster.
bool is_plain(const Access& a) {
  return !a.predicated && a.cache.empty() && a.evict.empty() && a.sem.empty() && !a.adds &&
         a.space != Space::Cluster;
}

Value* nth(const Words& w, std::size_t i) { return w[w.size() == 1 ? 0 : i]; }

llvm::Type* unit_type(Emitter& e, const Access& a) {
  if (a.dtype == DType::f32) return e.b.getFloatTy();
  if (a.dtype == DType::f64) return e.b.getDoubleTy();
  return e.b.getIntNTy(8u * static_cast<unsigned>(a.unit_bytes()));
}

llvm::Type* access_type(Emitter& e, const Access& a) {
  llvm::Type* unit = unit_type(e, a);
  return a.units() == 1 ? unit : llvm::FixedVectorType::get(unit, static_cast<unsigned>(a.units()));
}

Value* memory_pointer(Emitter& e, const Access& a, Value* address) {
  return a.space == Space::Shared ? e.b.CreateIntToPtr(address, e.b.getPtrTy(3)) : address;
}

/// Returns the registers that one access loads.
Words load_units(Emitter& e, const Access& a, Value* address, Value* predicate, const Words& fill) {
  if (!is_plain(a)) {
    llvm::SmallVector<Value*, 8> args(fill.begin(), fill.end());
    args.push_back(address);
    if (a.predicated) args.push_back(predicate);
    return e.inline_ptx(ptx::load(a), args);
  }
  Value* v = e.b.CreateAlignedLoad(access_type(e, a), memory_pointer(e, a, address),
                                   llvm::Align(static_cast<std::uint64_t>(a.bytes())));
  if (a.units() == 1) return {v};
  Words out;
  for (int i = 0; i < a.units(); ++i)
    out.push_back(e.b.CreateExtractElement(v, static_cast<std::uint64_t>(i)));
  return out;
}

void store_units(Emitter& e, const Access& a, Value* address, const Words& units,
                 Value* predicate) {
  if (!is_plain(a)) {
    llvm::SmallVector<Value*, 8> args{address};
    args.append(units.begin(), units.end());
    if (a.predicated) args.push_back(predicate);
    e.inline_ptx(ptx::store(a), args);
    return;
  }
  Value* v = e.bits_as(units[0], unit_type(e, a));
  if (a.units() > 1) {
    v = llvm::PoisonValue::get(access_type(e, a));
    for (std::size_t i = 0; i < units.size(); ++i)
      v = e.b.CreateInsertElement(v, e.bits_as(units[i], unit_type(e, a)),
                                  static_cast<std::uint64_t>(i));
  }
  e.b.CreateAlignedStore(v, memory_pointer(e, a, address),
                         llvm::Align(static_cast<std::uint64_t>(a.bytes())));
}

/// Returns the registers of access number `n`, each packed with as many elements as fit.
Words units_of(Emitter& e, const Access& a, ir::Elem elem, const std::vector<ElementRef>& refs,
               std::size_t n) {
  const auto per_unit = static_cast<std::size_t>(a.unit_bytes() / size_bytes(a.dtype));
  Words out;
  for (std::size_t u = 0; u < static_cast<std::size_t>(a.units()); ++u) {
    const std::size_t first =
        refs.size() == 1 ? 0 : n * static_cast<std::size_t>(a.width) + u * per_unit;
    if (per_unit == 1) {
      Value* v = e.element(refs[first], elem);
      out.push_back(is_bool(elem.dtype) && !elem.pointer ? e.b.CreateZExt(v, e.b.getInt8Ty()) : v);
      continue;
    }
    const unsigned bits = 8u * static_cast<unsigned>(size_bytes(a.dtype));
    const bool whole =
        refs.size() > 1 && refs[first].part == 0 &&
        refs[first].word->getType()->isIntegerTy(bits * static_cast<unsigned>(per_unit)) &&
        refs[first + per_unit - 1].word == refs[first].word;
    if (whole) {
      out.push_back(refs[first].word);
      continue;
    }
    const auto part = [&](std::size_t i) {
      Value* v = e.element(refs[refs.size() == 1 ? 0 : first + i], elem);
      return bits == 8 && v->getType()->isIntegerTy(1) ? e.b.CreateZExt(v, e.b.getInt8Ty()) : v;
    };
    if (bits == 8 && per_unit == 2) {
      // NVPTX would combine the two bytes in local memory.
      llvm::Type* pair = e.b.getInt16Ty();
      Value* high = e.b.CreateShl(e.b.CreateZExt(e.bits_as(part(1), e.b.getInt8Ty()), pair), 8);
      out.push_back(e.b.CreateOr(high, e.b.CreateZExt(e.bits_as(part(0), e.b.getInt8Ty()), pair)));
      continue;
    }
    Value* unit = llvm::PoisonValue::get(
        llvm::FixedVectorType::get(e.b.getIntNTy(bits), static_cast<unsigned>(per_unit)));
    for (std::size_t i = 0; i < per_unit; ++i)
      unit = e.b.CreateInsertElement(unit, part(i), static_cast<std::uint64_t>(i));
    out.push_back(e.b.CreateBitCast(unit, e.b.getIntNTy(bits * static_cast<unsigned>(per_unit))));
  }
  return out;
}

void emit_load(Emitter& e, OpId id, Space space) {
  const ir::Value result = e.result(id);
  const ir::Elem elem = e.kernel.type(result).elem();
  const bool predicated = e.operand_count(id) > 1;
  const Access a = ptx::access_of(e.attrs(id), space, elem, predicated);
  const Words addresses = e.words(e.operand(id, 0));
  const Words predicates = predicated ? e.words(e.operand(id, 1)) : Words();
  const bool filled = e.operand_count(id) > 2;
  const auto fills = filled ? e.refs(e.operand(id, 2)) : std::vector<ElementRef>();
  const Words no_fill(static_cast<std::size_t>(predicated ? a.units() : 0),
                      llvm::PoisonValue::get(unit_type(e, a)));
  const int per_unit = a.unit_bytes() / size_bytes(a.dtype);
  std::vector<ElementRef> refs;
  for (std::size_t n = 0; n < addresses.size(); ++n) {
    const Words fill = filled ? units_of(e, a, elem, fills, n) : no_fill;
    for (Value* unit :
         load_units(e, a, addresses[n], predicated ? nth(predicates, n) : nullptr, fill)) {
      for (int part = 0; part < per_unit; ++part) {
        ElementRef ref{unit, part};
        if (is_bool(elem.dtype) && !elem.pointer)
          ref = {e.b.CreateIsNotNull(e.element(ref, {DType::u8, false})), 0};
        refs.push_back(ref);
      }
    }
  }
  e.set_refs(result, refs);
}

void emit_store(Emitter& e, OpId id, Space space) {
  const ir::Elem elem = e.kernel.type(e.operand(id, 1)).elem();
  const bool predicated = e.operand_count(id) > 2;
  const Access a = ptx::access_of(e.attrs(id), space, elem, predicated);
  const Words& addresses = e.words(e.operand(id, 0));
  const auto refs = e.refs(e.operand(id, 1));
  for (std::size_t n = 0; n < addresses.size(); ++n)
    store_units(e, a, addresses[n], units_of(e, a, elem, refs, n),
                predicated ? nth(e.words(e.operand(id, 2)), n) : nullptr);
}

}  // namespace

void llvm_LdGlobal(Emitter& e, OpId id) { emit_load(e, id, Space::Global); }
void llvm_StGlobal(Emitter& e, OpId id) { emit_store(e, id, Space::Global); }
void llvm_LdShared(Emitter& e, OpId id) { emit_load(e, id, Space::Shared); }
void llvm_LdCluster(Emitter& e, OpId id) { emit_load(e, id, Space::Cluster); }
void llvm_StShared(Emitter& e, OpId id) { emit_store(e, id, Space::Shared); }

void llvm_AtomGlobal(Emitter& e, OpId id) {
  const ir::Value result = e.result(id);
  const ir::Elem elem = e.kernel.type(result).elem();
  const bool predicated = e.operand_count(id) > 2, used = e.is_used(result);
  const ptx::Asm a = ptx::atomic(e.attrs(id), elem.dtype, predicated, used, *e.kernel.info.target);
  if (a.text.empty()) e.refuse(id, "no atomic operation of this kind for this type");
  const Words addresses = e.words(e.operand(id, 0)), values = e.elements(e.operand(id, 1));
  // A run of neighbors uses the address of its first element.
  const auto run = used ? 1 : static_cast<std::size_t>(e.attrs(id).i(AttrName::width, 1));
  Words old;
  for (std::size_t n = 0; n < addresses.size(); n += run) {
    llvm::SmallVector<Value*, 6> args{addresses[n]};
    for (std::size_t i = 0; i < run; ++i) args.push_back(nth(values, n + i));
    if (predicated) args.push_back(nth(e.words(e.operand(id, 2)), n));
    const Words out = e.inline_ptx(a, args);
    llvm::Type* type = e.element_type(elem);
    old.resize(n + run, llvm::PoisonValue::get(type));
    if (!out.empty()) old[n] = e.bits_as(out[0], type);
  }
  e.set_elements(result, old);
}

void llvm_CasGlobal(Emitter& e, OpId id) {
  const ir::Value result = e.result(id);
  const ir::Elem elem = e.kernel.type(result).elem();
  const bool predicated = e.operand_count(id) > 3;
  const ptx::Asm a = ptx::compare_and_swap(e.attrs(id), elem.dtype, predicated);
  const Words addresses = e.words(e.operand(id, 0)), expected = e.elements(e.operand(id, 1)),
              desired = e.elements(e.operand(id, 2));
  Words old;
  for (std::size_t n = 0; n < addresses.size(); ++n) {
    llvm::SmallVector<Value*, 4> args{addresses[n], nth(expected, n), nth(desired, n)};
    if (predicated) args.push_back(nth(e.words(e.operand(id, 3)), n));
    old.push_back(e.bits_as(e.inline_ptx(a, args)[0], e.element_type(elem)));
  }
  e.set_elements(result, old);
}

void llvm_CpAsync(Emitter& e, OpId id) {
  const auto bytes = static_cast<int>(e.attrs(id).i(AttrName::bytes));
  const bool predicated = e.operand_count(id) > 2;
  const ptx::Asm a = ptx::cp_async(bytes, e.attrs(id).s(AttrName::cache), predicated);
  const Words &to = e.words(e.operand(id, 0)), &from = e.words(e.operand(id, 1));
  for (std::size_t n = 0; n < std::max(to.size(), from.size()); ++n) {
    llvm::SmallVector<Value*, 3> args{nth(to, n), nth(from, n)};
    if (predicated)
      args.push_back(e.b.CreateSelect(nth(e.words(e.operand(id, 2)), n), e.i32(bytes), e.i32(0)));
    e.inline_ptx(a, args);
  }
}

void llvm_LdMatrix(Emitter& e, OpId id) {
  const ptx::Asm a = ptx::ldmatrix(static_cast<int>(e.attrs(id).i(AttrName::num, 4)),
                                   e.attrs(id).i(AttrName::trans) != 0);
  Words out;
  for (Value* address : e.words(e.operand(id, 0))) out.append(e.inline_ptx(a, {address}));
  e.set_words(e.result(id), std::move(out));
}

void llvm_StMatrix(Emitter& e, OpId id) {
  const auto num = static_cast<std::size_t>(e.attrs(id).i(AttrName::num, 4));
  const ptx::Asm a = ptx::stmatrix(static_cast<int>(num), e.attrs(id).i(AttrName::trans) != 0);
  const Words &addresses = e.words(e.operand(id, 0)), &values = e.words(e.operand(id, 1));
  for (std::size_t n = 0; n < addresses.size(); ++n) {
    llvm::SmallVector<Value*, 5> args{addresses[n]};
    args.append(values.begin() + n * num, values.begin() + (n + 1) * num);
    e.inline_ptx(a, args);
  }
}

}  // namespace tegula::codegen::llvm_backend
