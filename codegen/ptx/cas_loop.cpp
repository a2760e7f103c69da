// A loop reads the word, computes the new word, and swaps it in unless another thread has changed
// it; the value seen by the failed swap is the next iteration's word. PTX labels are local to their
// braces, so copies of the text do not collide.
#include "codegen/ptx/cas_loop.h"

#include <fmt/format.h>

#include "codegen/ptx/instructions.h"

namespace tegula::codegen::ptx {
namespace {

/// Returns text that computes `next` from `old` and `v`, registers of `bits` bits each, which may
/// be wider than the element.
std::string combination(std::string_view kind, DType d, int bits) {
  const auto line = [](std::string_view operation) {
    return fmt::format("{} next, old, v;\n", operation);
  };
  if (kind == "xchg") return fmt::format("mov.b{} next, v;\n", bits);
  if (is_float(d) && size_bits(d) == 8) return "";
  if (kind == "min" || kind == "max") {
    if (is_float(d)) return line(fmt::format("{}.{}", kind, type_suffix(d)));
    return line(fmt::format("{}.{}{}", kind, is_signed(d) ? "s" : "u", bits));
  }
  // add.bf16 requires sm_90; an fma with factor 1 rounds like the sum.
  if (kind == "add" && d == DType::bf16)
    return ".reg .b16 one;\nmov.b16 one, 0x3f80;\nfma.rn.bf16 next, old, one, v;\n";
  if (kind == "add")
    return line(fmt::format("add.{}",
                            is_float(d) ? std::string(type_suffix(d)) : fmt::format("u{}", bits)));
  return line(fmt::format("{}.b{}", kind, bits));
}

/// Returns a test that skips the swap of a min or max that changes nothing, unless the memory order
/// requires the swap.
std::string skip_unchanged(std::string_view kind, std::string_view sem, int bits) {
  const bool skips = (kind == "min" || kind == "max") && (sem.empty() || sem == "relaxed");
  return skips ? fmt::format("setp.eq.b{} done, changed, word;\n@done bra END;\n", bits) : "";
}

std::string swap(std::string_view sem, std::string_view scope, int bits) {
  return fmt::format(
      "atom.{0}.{1}.global.cas.b{2} seen, [at], word, changed;\nsetp.eq.b{2} done, seen, word;\n"
      "mov.b{2} word, seen;\n@!done bra AGAIN;\n",
      sem, scope, bits);
}

std::string skip_unless_predicate(const CasOperands& o) {
  return o.predicate.empty() ? "" : fmt::format("@!{} bra END;\n", o.predicate);
}

/// Returns the loop for an element that is a whole word.
std::string whole_words(std::string_view kind, DType d, std::string_view sem,
                        std::string_view scope, const std::string& next, const CasOperands& o) {
  const int bits = size_bits(d);
  return fmt::format(
      "{{\n.reg .pred done; .reg .b64 at; .reg .b{0} word, seen, changed, v, next;\n"
      "mov.b{0} word, 0;\nmov.b64 at, {1};\nmov.b{0} v, {2};\n{3}"
      "ld.relaxed.{4}.global.b{0} word, [at];\nAGAIN:\n{{\n.reg .b{0} old;\nmov.b{0} old, word;\n"
      "{5}}}\nmov.b{0} changed, next;\n{6}{7}END:\n{8}}}",
      bits, o.address, o.value, skip_unless_predicate(o), scope, next,
      skip_unchanged(kind, sem, bits), swap(sem, scope, bits),
      o.result.empty() ? "" : fmt::format("mov.b{} {}, word;\n", bits, o.result));
}

/// Returns the loop for an element that is one byte of an aligned word.
std::string bytes_of_words(std::string_view kind, DType d, std::string_view sem,
                           std::string_view scope, const std::string& next, const CasOperands& o) {
  const std::string_view sign = is_signed(d) && !is_float(d) ? "s" : "u";
  return fmt::format(
      "{{\n.reg .pred done; .reg .b64 at, low; .reg .b32 word, seen, changed, v, next, old, shift, "
      "rest;\n"
      "mov.b32 old, 0;\nand.b64 low, {0}, 3;\nsub.s64 at, {0}, low;\ncvt.u32.u64 shift, low;\n"
      "shl.b32 shift, shift, 3;\nshl.b32 rest, 0xff, shift;\nnot.b32 rest, rest;\n"
      "cvt.{1}32.{1}8 v, {2};\n{3}"
      "ld.relaxed.{4}.global.b32 word, [at];\nAGAIN:\nbfe.{1}32 old, word, shift, 8;\n{5}"
      "and.b32 next, next, 0xff;\nshl.b32 next, next, shift;\nand.b32 changed, word, rest;\n"
      "or.b32 changed, changed, next;\n{6}{7}END:\n{8}}}",
      o.address, sign, o.value, skip_unless_predicate(o), scope, next,
      skip_unchanged(kind, sem, 32), swap(sem, scope, 32),
      o.result.empty() ? "" : fmt::format("cvt.u16.u32 {}, old;\n", o.result));
}

}  // namespace

std::string cas_loop(std::string_view kind, DType d, std::string_view sem, std::string_view scope,
                     const CasOperands& operands) {
  const int bits = size_bits(d);
  if (is_bool(d)) return "";
  const std::string next = combination(kind, d, bits == 8 ? 32 : bits);
  if (next.empty()) return "";
  if (sem.empty()) sem = "relaxed";
  if (scope.empty()) scope = "gpu";
  return bits == 8 ? bytes_of_words(kind, d, sem, scope, next, operands)
                   : whole_words(kind, d, sem, scope, next, operands);
}

}  // namespace tegula::codegen::ptx
