// Renders inline PTX for the two languages in which it is embedded.
#include "codegen/ptx/asm.h"

#include <cctype>
#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace tegula::codegen::ptx {
namespace {

/// Replaces every `#n` of `text` by `name(n)`; other characters are passed to `literal(out, c)`.
template <class Name, class Literal>
std::string substitute(std::string_view text, const Name& name, const Literal& literal) {
  std::string out;
  for (std::size_t i = 0; i < text.size();) {
    if (text[i] != '#') {
      literal(out, text[i++]);
      continue;
    }
    int n = 0;
    for (++i; i < text.size() && std::isdigit(static_cast<unsigned char>(text[i])); ++i)
      n = n * 10 + (text[i] - '0');
    out += name(n);
  }
  return out;
}

bool is_output(const Operand& o) { return o.role != Role::In; }
bool is_input(const Operand& o) { return o.role != Role::Out; }

/// Returns true if a result may be written before every input has been read, in which case it must
/// not share a register with an input.
bool early_results(const Asm& a) { return a.convergent || a.text.find('{') == 0; }

void append(std::string& list, std::string_view item) {
  if (!list.empty()) list += ',';
  list += item;
}

}  // namespace

int Asm::add(Reg reg, Role role, int count) {
  const int first = static_cast<int>(operands.size());
  operands.insert(operands.end(), static_cast<std::size_t>(count), Operand{reg, role});
  return first;
}

Asm effect(std::string text, std::initializer_list<Reg> inputs) {
  Asm a;
  a.memory = true;
  a.text = std::move(text);
  for (Reg r : inputs) a.add(r, Role::In);
  return a;
}

Asm pure(Reg result, std::initializer_list<Reg> inputs) {
  Asm a;
  a.effects = false;
  a.add(result, Role::Out);
  for (Reg r : inputs) a.add(r, Role::In);
  return a;
}

LlvmAsm render_llvm(const Asm& a) {
  LlvmAsm out;
  std::vector<int> number(a.operands.size());
  const bool early = early_results(a);
  const auto letter = [&](std::size_t i) { return static_cast<char>(a.operands[i].reg); };
  for (std::size_t i = 0; i < a.operands.size(); ++i) {
    if (!is_output(a.operands[i])) continue;
    number[i] = static_cast<int>(out.outputs.size());
    out.outputs.push_back(static_cast<int>(i));
    append(out.constraints, fmt::format("={}{}", early ? "&" : "", letter(i)));
  }
  int next = static_cast<int>(out.outputs.size());
  for (std::size_t i = 0; i < a.operands.size(); ++i) {
    if (!is_input(a.operands[i])) continue;
    const bool tied = is_output(a.operands[i]);
    append(out.constraints, tied ? std::to_string(number[i]) : std::string(1, letter(i)));
    if (!tied) number[i] = next;
    ++next;
    out.inputs.push_back(static_cast<int>(i));
  }
  if (a.memory) append(out.constraints, "~{memory}");
  out.text = substitute(
      a.text, [&](int n) { return fmt::format("${}", number[static_cast<std::size_t>(n)]); },
      [](std::string& to, char c) { to += c == '$' ? "$$" : std::string(1, c); });
  return out;
}

std::string render_ptx(const Asm& a, const std::vector<std::string>& names) {
  return substitute(
      a.text, [&](int n) { return names[static_cast<std::size_t>(n)]; },
      [](std::string& to, char c) { to += c; });
}

std::string render_cuda(const Asm& a, const std::vector<std::string>& names) {
  std::string before, after, outputs, inputs;
  std::vector<std::string> spelling(a.operands.size());
  int next = 0;
  for (const bool output : {true, false}) {
    for (std::size_t i = 0; i < a.operands.size(); ++i) {
      const Operand& o = a.operands[i];
      if (is_output(o) != output) continue;
      spelling[i] = fmt::format("%{}", next++);
      const bool predicate = o.reg == Reg::pred;
      if (predicate) {
        const std::string integer = spelling[i];
        spelling[i] = fmt::format("q{}", i);
        before += fmt::format(".reg .pred {};\\n\\t", spelling[i]);
        if (is_input(o))
          before += fmt::format("setp.ne.b32 {}, {}, 0;\\n\\t", spelling[i], integer);
        if (output) after += fmt::format("\\n\\tselp.b32 {}, 1, 0, {};", integer, spelling[i]);
      }
      const std::string_view tie = o.role == Role::InOut ? "+"
                                   : !output             ? ""
                                   : early_results(a)    ? "=&"
                                                         : "=";
      append(
          output ? outputs : inputs,
          fmt::format(" \"{}{}\"({})", tie, predicate ? 'r' : static_cast<char>(o.reg), names[i]));
    }
  }
  std::string body = substitute(
      a.text, [&](int n) { return spelling[static_cast<std::size_t>(n)]; },
      [](std::string& to, char c) {
        if (c == '\n')
          to += "\\n\\t";
        else if (c == '%')
          to += "%%";
        else if (c != '\t')
          to += c;
      });
  body = before + body + after;
  if (!before.empty()) body = "{\\n\\t" + body + "\\n\\t}";
  return fmt::format("asm{}(\"{}\" :{} :{}{});", a.effects ? " volatile" : "", body, outputs,
                     inputs, a.memory ? " : \"memory\"" : "");
}

std::string braces(int first, int count) {
  std::string out = "{";
  for (int i = 0; i < count; ++i) out += fmt::format("{}#{}", i == 0 ? "" : ", ", first + i);
  return out + "}";
}

}  // namespace tegula::codegen::ptx
