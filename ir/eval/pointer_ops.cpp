// Loads, stores and atomics through raw pointers. Every address is checked against the argument
// from which it was computed.
#include <fmt/format.h>

#include <array>

#include "ir/eval/atomic_kind.h"
#include "ir/eval/number.h"
#include "ir/eval/program.h"
#include "tegula/error.h"

namespace tegula::ir::interp {
namespace {

/// A scalar or tile operand, accessed element by element.
struct Lane {
  const Cell* cells = nullptr;
  const std::uint8_t* states = nullptr;
  std::size_t stride = 0;
  OpId origin;
  Cell cell(std::size_t i) const { return cells[i * stride]; }
  std::uint8_t state(std::size_t i) const { return states == nullptr ? 0 : states[i * stride]; }
};

/// An op on pointers: its operands, and the elements that it accesses.
class PointerOp {
 public:
  PointerOp(Program& p, OpId id, std::size_t mask_operand) : p_(p), id_(id) {
    const OpData& d = p.op(id);
    for (std::size_t i = 0; i < d.operands.size(); ++i) {
      lanes_[i] = lane(d.operands[i], i);
      count_ = std::max(count_, static_cast<std::size_t>(p.kernel().type(d.operands[i]).count()));
    }
    has_mask_ = d.operands.size() > mask_operand;
    mask_ = mask_operand;
    pointee_ = p.operand_type(id, 0).dtype();
  }

  std::size_t count() const { return count_; }
  DType pointee() const { return pointee_; }
  const Lane& lane(std::size_t operand) const { return lanes_[operand]; }

  /// Starts the result; coordinates that an operand lacks are edges of the result.
  TileValue& start_result() {
    TileValue& out = p_.result(id_);
    out.reset(static_cast<std::size_t>(p_.result_type(id_).count()));
    for (const Value v : p_.op(id_).operands) out.join_edges(p_.value(v).edges);
    return out;
  }
  bool is_absent(std::size_t i) const {
    return ((lanes_[0].state(i) | (has_mask_ ? lanes_[mask_].state(i) : 0)) & kAbsent) != 0;
  }
  bool is_masked_off(std::size_t i) {
    if (!has_mask_) return false;
    const Lane& mask = lanes_[mask_];
    if ((mask.state(i) & kPoison) != 0) {
      p_.report_poison(id_, "uses", "as a mask", mask.origin);
      return true;
    }
    return mask.cell(i).i == 0;
  }
  /// Returns the address of element `i` and sets its memory region; reports a fault and returns
  /// null if the element must not be accessed.
  std::byte* address(std::size_t i, std::string_view verb, const MemoryRegion*& region) {
    const Lane& pointer = lanes_[0];
    if ((pointer.state(i) & kPoison) != 0) {
      p_.report_poison(id_, "uses", "as an address", pointer.origin);
      return nullptr;
    }
    const auto size = static_cast<std::size_t>(size_bytes(pointee_));
    const Memory& memory = p_.evaluation().memory;
    std::byte* address = memory.resolve(pointer.cell(i).i, size, region);
    if (address == nullptr) report_outside(pointer.cell(i).i, verb);
    return address;
  }
  /// Returns an element of a value operand, checked before it is written to memory.
  Cell stored(std::size_t i, const MemoryRegion& region, const std::byte* address,
              std::size_t operand = 1) {
    const Lane& value = lanes_[operand];
    if ((value.state(i) & kPoison) != 0) {
      const Memory& m = p_.evaluation().memory;
      p_.report_poison(id_, "writes", "to " + m.describe(region, m.address_of(region, address)),
                       value.origin);
    }
    return value.cell(i);
  }

  /// Reports an element whose address violates the promise of attrs align and axis.
  void check_promise(std::size_t i) {
    const std::int64_t align = p_.attrs(id_).i(AttrName::align, 0), size = size_bytes(pointee_);
    if (align == 0) return;
    const auto axis = static_cast<std::size_t>(p_.attrs(id_).i(AttrName::axis));
    const std::span<const std::int64_t> shape = p_.operand_type(id_, 0).shape();
    std::int64_t inner = 1;
    for (std::size_t d = axis + 1; d < shape.size(); ++d) inner *= shape[d];
    const std::int64_t along = static_cast<std::int64_t>(i) / inner % shape[axis];
    const std::int64_t address = lanes_[0].cell(i).i;
    if ((address - along * size % align) % align == 0) return;
    p_.report(FindingKind::Misaligned, id_, p_.op(id_).loc, [&] {
      return fmt::format("{} at {:#x}, which is not a multiple of {} bytes as promised",
                         info(p_.op(id_).opcode).mnemonic, address - along * size % align, align);
    });
  }

 private:
  Lane lane(Value v, std::size_t slot) {
    const TileValue& t = p_.value(v);
    const bool is_whole = t.is_plain() || t.edges.empty();
    if (is_whole)
      return {t.cells.data(), t.states.empty() ? nullptr : t.states.data(), t.stride(), t.origin};
    const Cell* cells = p_.dense(v);
    return {cells, p_.states(v, slot), 1, t.origin};
  }

  void report_outside(std::int64_t address, std::string_view verb) {
    p_.report(FindingKind::OutOfBounds, id_, p_.op(id_).loc, [&]() -> std::string {
      const std::string_view mnemonic = info(p_.op(id_).opcode).mnemonic;
      const Memory& memory = p_.evaluation().memory;
      const MemoryRegion* region = memory.owner(address);
      if (region == nullptr)
        return fmt::format("{} {} {:#x}, which no argument owns", mnemonic, verb, address);
      return fmt::format("{} {} {}, outside of {} ({} bytes)", mnemonic, verb,
                         memory.describe(*region, address), region->name,
                         region->end - region->begin);
    });
  }

  Program& p_;
  OpId id_;
  std::array<Lane, 4> lanes_;
  std::size_t count_ = 1, mask_ = 0;
  bool has_mask_ = false;
  DType pointee_{};
};

}  // namespace

void eval_Load(Program& p, OpId id) {
  PointerOp op(p, id, 1);
  const bool has_fill = p.op(id).operands.size() > 2;
  TileValue& out = op.start_result();
  const auto size = static_cast<std::size_t>(size_bytes(op.pointee()));
  for (std::size_t i = 0; i < out.cells.size(); ++i) {
    out.cells[i] = Cell{.i = 0};
    if (op.is_absent(i)) {
      out.add_state(i, kAbsent);
    } else if (op.is_masked_off(i)) {
      if (has_fill) {
        out.cells[i] = op.lane(2).cell(i);
        if (op.lane(2).state(i) != 0) out.add_state(i, op.lane(2).state(i));
      } else {
        out.add_state(i, kPoison);
        out.origin = id;
      }
    } else if (const MemoryRegion* region = nullptr;
               const std::byte* address = op.address(i, "reads", region)) {
      std::uint64_t bits = 0;
      std::memcpy(&bits, address, size);
      out.cells[i] = from_bits(bits, op.pointee());
      if (p.checks_released()) p.check_released(*region, address, size, id);
      p.touch_read(*region, address, size, id);
      op.check_promise(i);
    }
  }
}

void eval_Store(Program& p, OpId id) {
  PointerOp op(p, id, 2);
  const auto size = static_cast<std::size_t>(size_bytes(op.pointee()));
  for (std::size_t i = 0; i < op.count(); ++i) {
    if (op.is_absent(i) || (op.lane(1).state(i) & kAbsent) != 0 || op.is_masked_off(i)) continue;
    const MemoryRegion* region = nullptr;
    std::byte* address = op.address(i, "writes", region);
    if (address == nullptr) continue;
    p.touch_write(*region, address, size, id);
    op.check_promise(i);
    const std::uint64_t bits = to_bits(op.stored(i, *region, address), op.pointee());
    const bool is_new = std::memcmp(address, &bits, size) != 0;
    std::memcpy(address, &bits, size);
    p.stored.push_back({region, address, bits, is_new});
  }
  p.report_repeats(id);
}

namespace {

/// Updates each element in order: returns the old value, and stores the result of `update` on its
/// bits.
template <class Update>
void update_elements(Program& p, OpId id, PointerOp& op, std::size_t values, const char* verb,
                     Update update) {
  const auto size = static_cast<std::size_t>(size_bytes(op.pointee()));
  TileValue& out = op.start_result();
  for (std::size_t i = 0; i < out.cells.size(); ++i) {
    out.cells[i] = Cell{.i = 0};
    bool is_absent = op.is_absent(i);
    for (std::size_t v = 1; v <= values; ++v)
      is_absent = is_absent || (op.lane(v).state(i) & kAbsent) != 0;
    if (is_absent) {
      out.add_state(i, kAbsent);
      continue;
    }
    if (op.is_masked_off(i)) {
      out.add_state(i, kPoison);
      out.origin = id;
      continue;
    }
    const MemoryRegion* region = nullptr;
    std::byte* address = op.address(i, verb, region);
    if (address == nullptr) continue;
    p.touch_atomic(*region, address, size, id, p.attrs(id).s(AttrName::sem, "relaxed"));
    std::uint64_t before = 0;
    std::memcpy(&before, address, size);
    out.cells[i] = from_bits(before, op.pointee());
    const std::uint64_t after = update(i, before, *region, address);
    if (after == before) continue;
    std::memcpy(address, &after, size);
    ++p.effects;
  }
}

}  // namespace

void eval_AtomicRmw(Program& p, OpId id) {
  PointerOp op(p, id, 2);
  const Combine combine = combine_of(p.attrs(id).s(AttrName::kind));
  update_elements(p, id, op, 1, "updates",
                  [&](std::size_t i, std::uint64_t before, const MemoryRegion& region,
                      const std::byte* address) {
                    return to_bits(combine(from_bits(before, op.pointee()),
                                           op.stored(i, region, address), op.pointee()),
                                   op.pointee());
                  });
}

void eval_AtomicCas(Program& p, OpId id) {
  PointerOp op(p, id, 3);
  update_elements(
      p, id, op, 2, "updates",
      [&](std::size_t i, std::uint64_t before, const MemoryRegion& region,
          const std::byte* address) {
        const std::uint64_t expected = to_bits(op.stored(i, region, address), op.pointee()),
                            desired = to_bits(op.stored(i, region, address, 2), op.pointee());
        return before == expected ? desired : before;
      });
}

void eval_AtomicLoad(Program& p, OpId id) {
  PointerOp op(p, id, 1);
  const auto keep = [](std::size_t, std::uint64_t bits, const MemoryRegion&, const std::byte*) {
    return bits;
  };
  update_elements(p, id, op, 0, "reads", keep);
}

void eval_AtomicStore(Program& p, OpId id) {
  PointerOp op(p, id, 2);
  const auto size = static_cast<std::size_t>(size_bytes(op.pointee()));
  for (std::size_t i = 0; i < op.count(); ++i) {
    if (op.is_absent(i) || (op.lane(1).state(i) & kAbsent) != 0 || op.is_masked_off(i)) continue;
    const MemoryRegion* region = nullptr;
    std::byte* address = op.address(i, "writes", region);
    if (address == nullptr) continue;
    p.touch_atomic(*region, address, size, id, p.attrs(id).s(AttrName::sem, "relaxed"));
    const std::uint64_t bits = to_bits(op.stored(i, *region, address), op.pointee());
    std::uint64_t before = 0;
    std::memcpy(&before, address, size);
    std::memcpy(address, &bits, size);
    p.effects += bits != before ? 1 : 0;
  }
}

namespace {

bool is_reached(std::string_view kind, Cell found, std::int64_t wanted, DType d) {
  if (kind == "eq") return found.i == wanted;
  if (is_signed(d)) return found.i >= wanted;
  return static_cast<std::uint64_t>(found.i) >= static_cast<std::uint64_t>(wanted);
}

}  // namespace

void eval_WaitUntil(Program& p, OpId id) {
  const auto wanted = p.integer(id, 1, "the value waited for");
  PointerOp op(p, id, 2);
  const std::string_view kind = p.attrs(id).s(AttrName::kind);
  const DType d = op.pointee();
  const auto size = static_cast<std::size_t>(size_bytes(d));
  const MemoryRegion* region = nullptr;
  const std::byte* address = wanted ? op.address(0, "waits for", region) : nullptr;
  while (address != nullptr) {
    p.touch_atomic(*region, address, size, id, "acquire");
    std::uint64_t bits = 0;
    std::memcpy(&bits, address, size);
    const Cell found = from_bits(bits, d);
    if (is_reached(kind, found, *wanted, d)) return;
    if (p.wait_for_others()) continue;
    const Memory& memory = p.evaluation().memory;
    const auto number = [&](std::int64_t n) {
      return is_signed(d) ? fmt::format("{}", n) : fmt::format("{}", static_cast<std::uint64_t>(n));
    };
    p.stop_deadlocked(
        id, fmt::format("wait_until waits until {} is {}{}; it is {}, and no program changes it",
                        memory.describe(*region, memory.address_of(*region, address)),
                        kind == "eq" ? "" : "at least ", number(*wanted), number(found.i)));
  }
}

namespace {

/// Increments a counter and returns its previous value. Count number `total` resets it to 0.
std::optional<std::uint32_t> count_up(Program& p, OpId id, std::int64_t total,
                                      std::string_view sem) {
  PointerOp op(p, id, 2);
  const MemoryRegion* region = nullptr;
  std::byte* address = op.address(0, "counts in", region);
  if (address == nullptr) return std::nullopt;
  std::uint32_t before = 0;
  p.touch_atomic(*region, address, sizeof before, id, sem);
  std::memcpy(&before, address, sizeof before);
  const std::uint32_t now = before + 1 >= total ? 0 : before + 1;
  std::memcpy(address, &now, sizeof now);
  ++p.effects;
  return before;
}

}  // namespace

void eval_FetchTile(Program& p, OpId id) {
  const auto total = p.integer(id, 1, "a number of tiles");
  const auto before = total ? count_up(p, id, *total, "relaxed") : std::nullopt;
  p.result(id).set_scalar(Cell{.i = before ? *before : 0});
}

void eval_ArriveAndTestLast(Program& p, OpId id) {
  const auto count = p.integer(id, 1, "a number of arrivals");
  const auto before = count ? count_up(p, id, *count, "acq_rel") : std::nullopt;
  p.result(id).set_scalar(Cell{.i = before && *before + 1 == *count ? 1 : 0});
}

}  // namespace tegula::ir::interp
