#pragma once
// State of the CUDA C++ emitter and the services for op functions: expressions of values,
// variables, statements, and helper functions around inline PTX.
//
// A `v<NxT>` is an array of N elements that the compiler keeps in registers: every index is a
// constant once the `#pragma unroll` loops are unrolled. A result tied to an operand reuses the
// operand's array if the operand dies there.
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "codegen/cuda/names.h"
#include "codegen/cuda/text.h"
#include "codegen/cuda/uses.h"
#include "codegen/ptx/instructions.h"
#include "ir/kernel.h"

namespace tegula::codegen::cuda {

using ir::AttrName;
using ir::Opcode;
using ir::OpId;
using ir::Value;

/// A variable of the emitted program; an array if `count` is not 0.
struct Variable {
  std::string name;
  std::string type;
  std::int64_t count = 0;
  std::vector<ir::Value> holders;  ///< values that it holds at some time
};

/// Parameters of a helper function around PTX.
struct Parameters {
  std::vector<std::string> declarations, names;

  void add(const std::string& type, const std::string& name) {
    declarations.push_back(type + " " + name);
    names.push_back(name);
  }
};

class Emitter {
 public:
  /// `line_info`: also emit `#line` directives with the user's line of each statement.
  explicit Emitter(const ir::Kernel& kernel, bool line_info = false);
  std::string run();

  const ir::Kernel& kernel;
  const Uses uses;
  Names names;

  // ---- ops
  const ir::OpData& op(ir::OpId id) const { return kernel[id]; }
  const ir::AttrList& attrs(ir::OpId id) const { return kernel[id].attrs; }
  ir::Value operand(ir::OpId id, std::size_t i) const { return kernel[id].operands[i]; }
  std::size_t operand_count(ir::OpId id) const { return kernel[id].operands.size(); }
  ir::Value result(ir::OpId id, std::size_t i = 0) const { return kernel[id].results[i]; }
  /// Returns the type of the registers that hold `v`; for a pending value, its resolved type or its
  /// packed words.
  ir::Type type(ir::Value v) const;
  std::int64_t count(ir::Value v) const { return type(v).count(); }
  bool is_array(ir::Value v) const { return type(v).is_vec(); }
  /// Returns the op that defines `v` if it is a constant, else null.
  const ir::OpData* constant_op(ir::Value v) const;
  std::optional<std::int64_t> constant(ir::Value v) const;
  bool is_poison(ir::Value v) const;
  /// Throws InternalError: the op cannot be expressed in CUDA C++ for this target.
  [[noreturn]] void refuse(ir::OpId id, std::string_view why) const;

  // ---- statements
  void line(std::string_view text);
  /// Emits the user's line of the current op now, for ops that emit their first line of text later.
  void comment_location() { locate(pending_location_); }
  /// Emits "head {" and increases the indentation.
  void open(std::string_view head);
  void close();
  /// Emits `head`, e.g. "} else {", one level further out than the branch that it ends.
  void next_branch(std::string_view head);
  void emit_region(ir::RegionId region);
  /// Emits "#pragma unroll" and a loop over `r` with one statement; if `count` is 1, only the
  /// statement, with 0 in place of `r`.
  void for_registers(std::int64_t count, const std::string& statement, std::int64_t step = 1);
  /// Returns the text of the statements that `make` emits, removed from the program.
  template <class Make>
  std::string captured(const Make& make) {
    std::string outer = std::move(body_);
    body_.clear();
    make();
    std::string inner = std::move(body_);
    body_ = std::move(outer);
    return inner;
  }
  void append(const std::string& statements) { body_ += statements; }
  void deepen(int levels) { depth_ += levels; }
  std::size_t loop_depth = 0;

  // ---- values
  /// Returns the element of `v` at `index` ("r", "2 * r + 1", "5"); a scalar is the same at every
  /// index.
  Text text(ir::Value v, std::string_view index = "0");
  /// Returns the same, converted if the C++ value may differ from the element.
  Text exact(ir::Value v, std::string_view index = "0");
  std::string argument(ir::Value v, std::string_view index = "0") { return exact(v, index).s; }
  /// Returns the array that holds `v`; creates it if `v` is a constant or an expression.
  std::string array(ir::Value v);
  /// Declares a new variable for a result; not initialized if `initial` is empty.
  std::string declare(ir::Value v, const Text& initial = {});
  std::string declare_array(ir::Value v);
  /// Returns the array of `result`: that of `tied` if its live range ends at `point`, else a copy.
  std::string take_over(ir::Value result, ir::Value tied, ir::OpId point);
  /// Makes the variable that holds `other` also hold `v`. Emits nothing.
  void share(ir::Value v, ir::Value other);
  void bind(ir::Value v, std::size_t variable);
  bool has_variable(ir::Value v) const { return variable_[v.index] >= 0; }
  const Variable& variables(std::size_t index) const { return variables_[index]; }
  Variable& variable(ir::Value v) {
    return variables_[static_cast<std::size_t>(variable_[v.index])];
  }
  std::size_t variable_index(ir::Value v) const {
    return static_cast<std::size_t>(variable_[v.index]);
  }
  /// Returns the variable of a value at the kernel's entry; the caller sets its name.
  Variable& entry_variable(ir::Value v);
  std::size_t new_variable(ir::Value v, std::string_view hint, bool is_declared = true);
  /// Returns true if no value in the variable is read after `point`.
  bool is_free_at(ir::Value v, ir::OpId point) const;
  /// Variables that an expression reads: at the register index of its result, or at another one.
  struct Reads {
    std::set<std::size_t> same_index, other_index;
    bool any(std::size_t v) const { return same_index.contains(v) || other_index.contains(v); }
  };
  Reads reads(ir::Value v) const;
  /// Emits to[i] = from[i] for all i simultaneously. `to` are values with variables.
  void assign(const std::vector<ir::Value>& to, const std::vector<ir::Value>& from);

  // ---- types and helpers
  /// Returns the C++ name of a type, e.g. "float", "bf16", "i64", "float*".
  std::string c_type(ir::Elem e);
  std::string c_type(ir::Type t) { return c_type(t.elem()); }
  const std::string& use_type(const std::string& name);
  /// Returns a literal of the type, e.g. "1.0f", "-infinity()", "0x7fffu".
  Text literal(ir::Elem e, const ir::AttrList& attrs);
  Text float_literal(double value, DType d);
  /// Adds `__device__ __forceinline__ SIGNATURE { BODY }` once and returns its name, which replaces
  /// NAME in the signature.
  std::string function(std::string_view name, const std::string& signature,
                       const std::string& body);
  /// Returns a function around PTX that returns its only result, operand 0. `parameters`, such as
  /// "float x", are the other operands in order.
  std::string ptx_value(std::string_view name, const std::string& type,
                        const std::vector<std::string>& parameters, const ptx::Asm& a);
  /// Returns a function around PTX without results; `names` are the C++ expressions of its
  /// operands.
  std::string ptx_effect(std::string_view name, const std::vector<std::string>& parameters,
                         const ptx::Asm& a, const std::vector<std::string>& names);
  /// Emits PTX without operands, as a statement.
  void ptx_statement(const ptx::Asm& a);

  // ---- values at the kernel's entry
  const std::string& tid();
  const std::string& lane();
  const std::string& warp();
  const std::string& never();
  const std::string& grid_register(bool extent, std::int64_t axis);
  const std::string& smem();

 private:
  const std::string& at_entry(std::string& slot, std::string_view name, const std::string& type,
                              const std::string& value);
  void declare_parameters();
  std::string header() const;
  std::string signature() const;
  void locate(const Loc& loc);

  std::string body_, types_, functions_, entry_;
  int depth_ = 1;
  std::set<std::string> used_types_;
  std::unordered_map<std::string, std::string> function_names_;  ///< by text
  std::map<std::string, std::set<std::string>> overloads_;       ///< signatures by name
  std::vector<Variable> variables_;
  std::vector<int> variable_;  ///< by value, -1: none
  std::string parameters_;
  std::string tid_, lane_, warp_, never_, smem_, grid_[2][3];
  bool uses_smem_ = false, line_info_;
  Loc pending_location_, last_location_;
};

/// One element of an elementwise op.
struct Element {
  Emitter& e;
  ir::OpId id;
  std::string_view index;

  const ir::OpData& op() const { return e.op(id); }
  const ir::AttrList& attrs() const { return e.attrs(id); }
  ir::Elem in(std::size_t i = 0) const { return e.type(e.operand(id, i)).elem(); }
  ir::Elem out() const { return e.type(e.result(id)).elem(); }
  bool is_float() const { return !in().pointer && tegula::is_float(in().dtype); }
  /// Returns operand i, converted if its C++ value may differ; loose() does not convert.
  Text x(std::size_t i = 0) const { return e.exact(e.operand(id, i), index); }
  Text loose(std::size_t i = 0) const { return e.text(e.operand(id, i), index); }
  /// Returns operand i, as f32 if its type is a narrower float.
  Text wide(std::size_t i = 0) const;
};

#define STRUCTURE(Name, ...) void cuda_##Name(Emitter&, ir::OpId);
#define SIMT_OP(Name, ...) void cuda_##Name(Emitter&, ir::OpId);
#define ELEMENTWISE(Name, ...) Text cuda_##Name(const Element&);
#include "ir/op_rows.h"

using ElementFn = Text (*)(const Element&);
/// Returns the expression template of an elementwise op; null for any other op.
ElementFn element_fn(ir::Opcode o);
/// Emits an elementwise op whose result has a variable.
void emit_elementwise(Emitter&, ir::OpId);
/// Returns the expression of an inlined or single register of `regs`.
Text regs_element(Emitter&, ir::OpId, std::string_view index);

/// Returns a call that converts one element.
Text convert(Emitter&, const Text& x, DType from, DType to, ir::CastMode mode = {});
/// Returns the packed word of two or four neighboring narrow floats of an inlined `cast`, from
/// element n * index.
std::string packed_cast(Emitter&, ir::OpId cast, std::string_view index);

}  // namespace tegula::codegen::cuda
