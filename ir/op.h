#pragma once
// The op table: everything that is known about an op independently of a program.
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/type.h"

namespace tegula::ir {

class Kernel;
class AttrList;

enum class Opcode : std::uint16_t {
#define ROW(Name, ...) Name,
#include "ir/op_rows.h"
};

enum class AttrName : std::uint8_t {
#define ATTR(name, kind, doc) name,
#include "ir/attrs.def"
#undef ATTR
};

enum class AttrKind : std::uint8_t { Int, Float, Number, Str, Ints };

/// The row macro that declares an op, which determines its duties (see ops.def).
enum class Family : std::uint8_t { Structure, Elementwise, Math, Tile, Machine, Simt };

enum class Form : std::uint8_t { Tile, Machine, Simt };

/// Effects and properties, as a bit set.
using Traits = std::uint32_t;
inline constexpr Traits kNone = 0;
inline constexpr Traits kPure = 1u << 0;        ///< no effect: may be removed, merged, moved
inline constexpr Traits kReads = 1u << 1;       ///< reads memory
inline constexpr Traits kWrites = 1u << 2;      ///< writes memory
inline constexpr Traits kEffects = 1u << 3;     ///< ordered with every other effect
inline constexpr Traits kAllocates = 1u << 4;   ///< each execution is a distinct object
inline constexpr Traits kTerminator = 1u << 5;  ///< last op of a region
inline constexpr Traits kCommutative = 1u << 6;
inline constexpr Traits kConvergent = 1u << 7;     ///< all threads of the warp take part
inline constexpr Traits kUniform = 1u << 8;        ///< equal in all lanes of a warp
inline constexpr Traits kAsync = 1u << 9;          ///< the result is pending
inline constexpr Traits kBarrierScope = 1u << 10;  ///< barriers inside are the role's own

struct Arity {
  std::int16_t min, max;  ///< max < 0: no bound
};
constexpr Arity exact(int n) {
  return {static_cast<std::int16_t>(n), static_cast<std::int16_t>(n)};
}
constexpr Arity at_least(int n) { return {static_cast<std::int16_t>(n), -1}; }
constexpr Arity between(int a, int b) {
  return {static_cast<std::int16_t>(a), static_cast<std::int16_t>(b)};
}
inline constexpr int kVariadic = -1;

/// Inputs of an infer function.
struct InferArgs {
  std::span<const Type> operands;
  const AttrList& attrs;
};
/// Result types, or the reason why the operands do not fit.
struct Inferred {
  std::vector<Type> types;
  std::string error;
  static Inferred fail(std::string why) { return {{}, std::move(why)}; }
};
using InferFn = Inferred (*)(const InferArgs&);

struct OpInfo {
  std::string_view name;
  std::string_view mnemonic;
  Family family;
  Arity operands;
  int results;
  int regions;
  InferFn infer;  ///< null: the code that creates the op gives its result types
  Traits traits;
  std::string_view doc;

  bool has(Traits t) const { return (traits & t) != 0; }
  /// Returns true if each element of the result is computed from the operands' elements at the same
  /// position.
  bool is_elementwise() const { return family == Family::Elementwise || family == Family::Math; }
  bool allowed_in(Form form) const;
};

struct AttrInfo {
  std::string_view name;
  AttrKind kind;
  std::string_view doc;
};

const OpInfo& info(Opcode op);
const AttrInfo& info(AttrName attr);
std::span<const OpInfo> all_ops();
std::span<const AttrInfo> all_attrs();
std::optional<Opcode> find_op(std::string_view mnemonic);
std::optional<AttrName> find_attr(std::string_view name);
/// Returns the position of the mask among the operands of an access by address; none for other ops.
std::optional<std::size_t> mask_operand(Opcode op);
std::string_view name(Form form);
std::optional<Form> parse_form(std::string_view text);

#define ROW(Name, ...) +1
inline constexpr int kOpCount = 0
#include "ir/op_rows.h"
    ;

}  // namespace tegula::ir
