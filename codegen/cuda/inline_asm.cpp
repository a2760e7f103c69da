// Inline PTX of the user, with LLVM's constraints. `$n` is the n-th register of the results and the
// operands, in this order. 8- and 16-bit elements that fill 32-bit words are passed as words.
#include <fmt/format.h>

#include <cctype>

#include "codegen/cuda/bits.h"

namespace tegula::codegen::cuda {
namespace {

/// Returns the number of elements per register of the asm; the LLVM emitter packs them equally.
int per_register(Emitter& e, Value v) {
  const ir::Type t = e.type(v);
  const int bits = element_bits(t.elem());
  const bool packs = t.is_vec() && bits < 32 && !is_bool(t.dtype()) && t.count() * bits % 32 == 0;
  return packs ? 32 / bits : 1;
}

/// A register operand: its constraint and its C++ expression.
struct Register {
  std::string constraint, spelling;
};

std::vector<std::string> split_constraints(std::string_view text) {
  std::vector<std::string> out;
  while (!text.empty()) {
    const std::size_t comma = text.find(',');
    const std::string_view piece = text.substr(0, comma);
    if (piece.find('~') == std::string_view::npos) out.emplace_back(piece);
    text.remove_prefix(comma == std::string_view::npos ? text.size() : comma + 1);
  }
  return out;
}

std::string packed(Emitter& e, Value v, int per_word, std::int64_t word) {
  const ir::Elem elem = e.type(v).elem();
  std::string s;
  for (int n = 0; n < per_word; ++n) {
    const std::string part = fmt::format(
        "{}({})", word_type(e, 32),
        to_bits(e, elem, e.exact(v, std::to_string(word * per_word + n)).within(Prec::Unary)));
    s += n == 0 ? part : fmt::format(" | {} << {}", part, n * element_bits(elem));
  }
  return s;
}

std::string input(Emitter& e, Value v, int per_word, std::int64_t word) {
  if (per_word > 1) return packed(e, v, per_word, word);
  const std::string x = e.exact(v, std::to_string(word)).s;
  if (is_bool(e.type(v).dtype())) return fmt::format("int({})", x);
  return element_bits(e.type(v).elem()) == 8 ? fmt::format("{}({})", word_type(e, 16), x) : x;
}

/// Returns the PTX with `$n` replaced by operand `number[n]`.
std::string renumbered(std::string_view text, const std::vector<std::size_t>& number) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const bool is_operand =
        c == '$' && i + 1 < text.size() && std::isdigit(static_cast<unsigned char>(text[i + 1]));
    if (is_operand) {
      std::size_t n = 0;
      while (i + 1 < text.size() && std::isdigit(static_cast<unsigned char>(text[i + 1])))
        n = n * 10 + static_cast<std::size_t>(text[++i] - '0');
      out += fmt::format("%{}", n < number.size() ? number[n] : n);
    } else if (c == '$' && i + 1 < text.size() && text[i + 1] == '$') {
      out += text[++i];
    } else {
      out += c == '\n' ? "\\n\\t" : c == '%' ? "%%" : c == '"' ? "\\\"" : std::string(1, c);
    }
  }
  return out;
}

/// Declares word variables for a result that is unpacked afterwards; returns their expressions.
std::vector<std::string> result_registers(Emitter& e, Value v, std::string& unpack) {
  const int per_word = per_register(e, v);
  const ir::Elem elem = e.type(v).elem();
  std::vector<std::string> out;
  const bool is_direct = per_word == 1 && !is_bool(elem.dtype) && element_bits(elem) != 8;
  const std::string name = e.is_array(v) ? e.declare_array(v) : e.declare(v);
  const std::string word = is_direct ? "" : e.names.fresh("word");
  const std::int64_t count = e.count(v) / per_word;
  const std::string type = is_bool(elem.dtype) ? "int" : word_type(e, per_word > 1 ? 32 : 16);
  if (!is_direct) e.line(fmt::format("{} {}[{}];", type, word, count));
  for (std::int64_t i = 0; i < count; ++i) {
    const std::string element = e.is_array(v) ? fmt::format("{}[{}]", name, i) : name;
    out.push_back(is_direct ? element : fmt::format("{}[{}]", word, i));
    for (int n = 0; n < per_word && !is_direct; ++n) {
      const std::string to = e.is_array(v) ? fmt::format("{}[{}]", name, i * per_word + n) : name;
      const std::string from =
          n == 0 ? out.back() : fmt::format("{} >> {}", out.back(), n * element_bits(elem));
      unpack += fmt::format("{} = {};\n", to, from_bits(e, elem, from));
    }
  }
  return out;
}

}  // namespace

void cuda_Asm(Emitter& e, OpId id) {
  const ir::OpData& d = e.op(id);
  const auto constraints = split_constraints(d.attrs.s(AttrName::constraints));
  std::string unpack;
  std::vector<Register> results, inputs;
  for (Value v : d.results)
    for (const std::string& s : result_registers(e, v, unpack)) results.push_back({"=", s});
  std::size_t next = results.size();
  std::vector<std::size_t> number;
  for (std::size_t i = 0; i < results.size() && i < constraints.size(); ++i) {
    results[i].constraint = constraints[i];
    number.push_back(i);
  }
  const auto taken = static_cast<std::size_t>(
      d.attrs.i(AttrName::count, static_cast<std::int64_t>(d.operands.size())));
  for (Value v : std::span(d.operands.data(), taken)) {
    const int per_word = per_register(e, v);
    for (std::int64_t word = 0; word < e.count(v) / per_word; ++word) {
      const std::size_t position = number.size();
      if (position >= constraints.size()) e.refuse(id, "has fewer constraints than registers");
      const std::string x = input(e, v, per_word, word);
      if (std::isdigit(static_cast<unsigned char>(
              constraints[position][0]))) {  // tied: initialize the result with this value
        const auto tied = static_cast<std::size_t>(std::stoi(constraints[position]));
        e.line(fmt::format("{} = {};", results[tied].spelling, x));
        results[tied].constraint =
            "+" + results[tied].constraint.substr(results[tied].constraint.find_first_not_of("=&"));
        number.push_back(tied);
      } else {
        inputs.push_back({constraints[position], x});
        number.push_back(next++);
      }
    }
  }
  const auto list = [](const std::vector<Register>& registers) {
    std::string s;
    for (const Register& r : registers)
      s += fmt::format("{} \"{}\"({})", s.empty() ? "" : ",", r.constraint, r.spelling);
    return s;
  };
  const bool effects = d.attrs.i(AttrName::effects) != 0;
  e.line(fmt::format("asm{}(\"{}\" :{} :{}{});", effects ? " volatile" : "",
                     renumbered(d.attrs.s(AttrName::text), number), list(results), list(inputs),
                     effects ? " : \"memory\"" : ""));
  for (std::size_t begin = 0, end; (end = unpack.find('\n', begin)) != std::string::npos;
       begin = end + 1)
    e.line(unpack.substr(begin, end - begin));
}

}  // namespace tegula::codegen::cuda
