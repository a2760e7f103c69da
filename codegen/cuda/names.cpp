// Names of variables.
#include "codegen/cuda/names.h"

#include <array>
#include <cctype>

namespace tegula::codegen::cuda {
namespace {

using ir::Opcode;

constexpr const char* kReserved[] = {
    "alignas", "asm", "auto", "bool", "break", "case", "catch", "char", "class", "const", "constexpr", "continue",
    "default", "delete", "do", "double", "else", "enum", "explicit", "extern", "false", "float", "for", "friend", "goto",
    "if", "inline", "int", "long", "mutable", "namespace", "new", "operator", "private", "protected", "public",
    "register", "return", "short", "signed", "sizeof", "static", "struct", "switch", "template", "this", "throw", "true",
    "try", "typedef", "typename", "union", "unsigned", "using", "virtual", "void", "volatile", "while", "and", "or",
    "not", "xor", "threadIdx", "blockIdx", "blockDim", "gridDim", "warpSize", "min", "max", "abs", "exp", "log", "sin",
    "cos", "tan", "tanh", "sqrt", "rsqrt", "floor", "ceil", "round", "trunc", "fabs", "fma", "pow", "exp2", "log2",
    "erf", "TensorMap", "i8", "i16", "i64", "u8", "u16", "u32", "u64", "bf16", "f16", "f8e4m3", "f8e5m2", "signbit",
    // Indices of registers in the loops that the emitter itself writes.
    "r", "n"};

struct Hint {
  Opcode opcode;
  const char* name;
};
constexpr std::array kHints{
    Hint{Opcode::Wgmma, "acc"},         Hint{Opcode::WgmmaWait, "acc"},  Hint{Opcode::WgmmaFence, "acc"},
    Hint{Opcode::Mma, "acc"},           Hint{Opcode::SmemDesc, "desc"},  Hint{Opcode::LdGlobal, "loaded"},
    Hint{Opcode::LdShared, "loaded"},   Hint{Opcode::LdMatrix, "frag"},  Hint{Opcode::AtomGlobal, "old"},
    Hint{Opcode::Shfl, "other"},        Hint{Opcode::Vote, "vote"},      Hint{Opcode::Elect, "elected"},
    Hint{Opcode::Repack, "packed"},     Hint{Opcode::Exp2, "e"},         Hint{Opcode::Log2, "lg"},
    Hint{Opcode::Rcp, "inv"},           Hint{Opcode::Rsqrt, "inv"},      Hint{Opcode::Rem, "rem"},
    Hint{Opcode::Cmp, "is"},            Hint{Opcode::AddPtr, "at"},      Hint{Opcode::Max, "top"},
    Hint{Opcode::Min, "low"},           Hint{Opcode::Concat, "list"},    Hint{Opcode::Fma, "fma"},
    Hint{Opcode::Asm, "out"},
};

std::string from_type(ir::Type t) {
  if (t.is(ir::TypeKind::Pending)) return "acc";
  if (t.is(ir::TypeKind::TensorMap)) return "map";
  if (t.is_pointer()) return "ptr";
  if (is_bool(t.dtype())) return "is";
  if (is_float(t.dtype())) return t.is_vec() ? "v" : "x";
  return t.is_vec() ? "w" : "t";
}

/// What the loop that `v` is carried through makes of it, as far as one op tells.
ir::Value next_carry(const ir::Kernel& k, ir::Value v) {
  const ir::ValueData& d = k[v];
  if (!d.region || !k[d.region].owner) return {};
  const ir::OpId loop = k[d.region].owner;
  const ir::OpId end = k.terminator(k[loop].regions.back());
  const std::size_t first = k[loop].opcode == Opcode::For ? 1 : 0;
  if (!end || d.position < first || d.position - first >= k[end].operands.size()) return {};
  return k[end].operands[d.position - first];
}

const char* from_op(const ir::Kernel& k, ir::OpId op) {
  for (const Hint& h : kHints)
    if (op && h.opcode == k[op].opcode) return h.name;
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

std::string name_hint(const ir::Kernel& k, ir::Value v) {
  const ir::OpId def = k[v].def;
  if (def) {
    const std::string_view label = k[def].attrs.s(ir::AttrName::label);
    if (!label.empty()) return std::string(label);
    if (const char* hint = from_op(k, def)) return hint;
  } else if (const ir::Value next = next_carry(k, v)) {
    if (const char* hint = from_op(k, k[next].def)) return k.type(v).is_vec() || k.type(v).is(ir::TypeKind::Pending) ? hint : from_type(k.type(v));
  }
  return from_type(k.type(v));
}

}  // namespace tegula::codegen::cuda
