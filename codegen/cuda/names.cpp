// Names of variables.
#include "codegen/cuda/names.h"

#include <array>
#include <cctype>

#include "ir/loop.h"

namespace tegula::codegen::cuda {
namespace {

using ir::Opcode;

constexpr const char* kReserved[] = {
    "alignas", "asm", "auto", "bool", "break", "case", "catch", "char", "class", "const",
    "constexpr", "continue", "default", "delete", "do", "double", "else", "enum", "explicit",
    "extern", "false", "float", "for", "friend", "goto", "if", "inline", "int", "long", "mutable",
    "namespace", "new", "operator", "private", "protected", "public", "register", "return", "short",
    "signed", "sizeof", "static", "struct", "switch", "template", "this", "throw", "true", "try",
    "typedef", "typename", "union", "unsigned", "using", "virtual", "void", "volatile", "while",
    "and", "or", "not", "xor", "threadIdx", "blockIdx", "blockDim", "gridDim", "warpSize", "min",
    "max", "abs", "exp", "log", "sin", "cos", "tan", "tanh", "sqrt", "rsqrt", "floor", "ceil",
    "round", "trunc", "fabs", "fma", "pow", "exp2", "log2", "erf", "TensorMap", "i8", "i16", "i64",
    "u8", "u16", "u32", "u64", "bf16", "f16", "f8e4m3", "f8e5m2", "signbit",
    // The register index in the loops that the emitter writes.
    "r"};

/// Name for a value that is operand number `operand` of op `user`.
struct Purpose {
  Opcode user;
  std::size_t operand;
  const char* name;
};
constexpr std::array kPurposes{
    Purpose{Opcode::MbarWait, 0, "mbar"},    Purpose{Opcode::MbarWait, 1, "phase"},
    Purpose{Opcode::MbarArrive, 0, "mbar"},  Purpose{Opcode::MbarExpectTx, 0, "mbar"},
    Purpose{Opcode::MbarInit, 0, "mbar"},    Purpose{Opcode::TmaLoad, 2, "mbar"},
    Purpose{Opcode::TmaLoad, 1, "buffer"},   Purpose{Opcode::TmaStore, 1, "buffer"},
    Purpose{Opcode::BarSync, 0, "barrier"},  Purpose{Opcode::BarArrive, 0, "barrier"},
    Purpose{Opcode::TmaLoad, 3, "x"},        Purpose{Opcode::TmaLoad, 4, "y"},
    Purpose{Opcode::TmaStore, 2, "x"},       Purpose{Opcode::TmaStore, 3, "y"},
    Purpose{Opcode::TmaReduce, 1, "buffer"}, Purpose{Opcode::TmaReduce, 2, "x"},
    Purpose{Opcode::TmaReduce, 3, "y"},      Purpose{Opcode::LdMatrix, 0, "row"},
    Purpose{Opcode::StMatrix, 0, "row"},     Purpose{Opcode::LdShared, 0, "addr"},
    Purpose{Opcode::StShared, 0, "addr"},    Purpose{Opcode::For, 1, "end"},
    Purpose{Opcode::SmemDesc, 0, "tile"},    Purpose{Opcode::AddPtr, 1, "offset"},
    Purpose{Opcode::CpAsync, 0, "to"},       Purpose{Opcode::CpAsync, 1, "from"},
};

/// Name for the result of an op.
struct Product {
  Opcode opcode;
  const char* name;
};
constexpr std::array kProducts{
    Product{Opcode::Wgmma, "acc"},       Product{Opcode::WgmmaWait, "acc"},
    Product{Opcode::WgmmaFence, "acc"},  Product{Opcode::Mma, "acc"},
    Product{Opcode::SmemDesc, "desc"},   Product{Opcode::LdGlobal, "loaded"},
    Product{Opcode::LdShared, "loaded"}, Product{Opcode::LdMatrix, "frag"},
    Product{Opcode::AtomGlobal, "old"},  Product{Opcode::CasGlobal, "old"},
    Product{Opcode::Shfl, "other"},      Product{Opcode::Vote, "vote"},
    Product{Opcode::Repack, "packed"},   Product{Opcode::Exp2, "power"},
    Product{Opcode::Log2, "log"},        Product{Opcode::Rcp, "inverse"},
    Product{Opcode::Rsqrt, "inverse"},   Product{Opcode::Rem, "rest"},
    Product{Opcode::Cmp, "cond"},        Product{Opcode::AddPtr, "address"},
    Product{Opcode::Max, "top"},         Product{Opcode::Min, "low"},
    Product{Opcode::Concat, "list"},     Product{Opcode::Add, "sum"},
    Product{Opcode::Sub, "diff"},        Product{Opcode::Mul, "prod"},
    Product{Opcode::Fma, "sum"},         Product{Opcode::Div, "ratio"},
    Product{Opcode::Select, "chosen"},   Product{Opcode::Neg, "minus"},
    Product{Opcode::Regs, "part"},       Product{Opcode::Asm, "out"},
    Product{Opcode::Shr, "high"},        Product{Opcode::And, "low_bits"},
};

/// Names for loop carries, by the op that updates them.
constexpr std::array kCarried{
    Product{Opcode::Select, "slot"},     Product{Opcode::Xor, "phase"},
    Product{Opcode::Wgmma, "acc"},       Product{Opcode::WgmmaWait, "acc"},
    Product{Opcode::Mma, "acc"},         Product{Opcode::Max, "top"},
    Product{Opcode::Fma, "total"},       Product{Opcode::Add, "total"},
    Product{Opcode::Mul, "scaled"},      Product{Opcode::Repack, "packed"},
    Product{Opcode::LdGlobal, "loaded"},
};

std::string from_type(ir::Type t) {
  if (t.is(ir::TypeKind::Pending)) return "acc";
  if (t.is(ir::TypeKind::TensorMap)) return "map";
  if (t.is_pointer()) return "ptr";
  if (is_bool(t.dtype())) return "cond";
  if (is_float(t.dtype())) return t.is_vec() ? "v" : "x";
  return t.is_vec() ? "w" : "t";
}

/// Returns the value that the loop yields for the carry `v`, if a single op defines it.
ir::Value next_carry(const ir::Kernel& k, ir::Value v) {
  const auto merge = ir::merge_of(k, v);
  if (!merge || k[v].def) return {};
  const ir::Value next = ir::loop_nexts(k, merge->op)[merge->index];
  // If an inner loop also carries it, the value there is more specific.
  const ir::OpId inner = k[next].def;
  if (!inner || k[inner].opcode != Opcode::For) return next;
  const ir::Value deeper = next_carry(k, ir::body_carries(k, inner)[k[next].position]);
  return deeper ? deeper : next;
}

template <class Table>
const char* look_up(const Table& table, const ir::Kernel& k, ir::OpId op) {
  for (const Product& p : table)
    if (op && p.opcode == k[op].opcode) return p.name;
  return nullptr;
}

/// Returns a name for an integer from the first user in kPurposes, or null.
const char* from_users(const ir::Kernel& k, ir::Value v, std::span<const ir::OpId> users) {
  if (k.type(v).is(ir::TypeKind::Pending) || k.type(v).is(ir::TypeKind::TensorMap) ||
      !is_integer(k.type(v).dtype()))
    return nullptr;
  for (ir::OpId user : users)
    for (const Purpose& p : kPurposes)
      if (p.user == k[user].opcode && p.operand < k[user].operands.size() &&
          k[user].operands[p.operand] == v)
        return p.name;
  return nullptr;
}

}  // namespace

Names::Names() {
  for (const char* word : kReserved) taken_[word] = 1;
}

std::string Names::fresh(std::string_view wanted) {
  std::string name;
  for (char c : wanted) name += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  if (name.empty() || std::isdigit(static_cast<unsigned char>(name.front()))) name.insert(0, "_");
  // "acc", "acc2", "acc3"; a name that ends in a digit gets "_2".
  const auto [it, is_new] = taken_.emplace(name, 1);
  if (is_new) return name;
  const std::string joint = std::isdigit(static_cast<unsigned char>(name.back())) ? "_" : "";
  for (;;) {
    const std::string candidate = name + joint + std::to_string(++taken_[name]);
    if (taken_.emplace(candidate, 1).second) return candidate;
  }
}

std::string name_hint(const ir::Kernel& k, ir::Value v, std::span<const ir::OpId> users) {
  const ir::OpId def = k[v].def;
  const std::string_view label = def ? k[def].attrs.s(ir::AttrName::label) : "";
  if (!label.empty()) return std::string(label);
  if (const char* hint = from_users(k, v, users)) return hint;
  const bool is_condition = !k.type(v).is(ir::TypeKind::Pending) &&
                            !k.type(v).is(ir::TypeKind::TensorMap) && !k.type(v).is_pointer() &&
                            is_bool(k.type(v).dtype());
  if (is_condition) return from_type(k.type(v));
  if (def) {
    if (const char* hint = look_up(kProducts, k, def)) return hint;
  } else if (const ir::Value next = next_carry(k, v)) {
    if (const char* hint = look_up(kCarried, k, k[next].def)) return hint;
  }
  return from_type(k.type(v));
}

}  // namespace tegula::codegen::cuda
