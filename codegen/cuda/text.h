#pragma once
// A piece of a C++ expression, with the information needed to insert it into a larger one without
// redundant parentheses or casts.
#include <string>
#include <utility>

namespace tegula::codegen::cuda {

/// Precedence of the outermost operator; smaller values bind tighter.
enum class Prec {
  Primary,
  Unary,
  Mul,
  Add,
  Shift,
  Relation,
  Equality,
  BitAnd,
  BitXor,
  BitOr,
  And,
  Or,
  Choice
};

struct Text {
  std::string s;
  Prec prec = Prec::Primary;
  /// False if only the low bits of the C++ value are certain to equal the element. Integer
  /// arithmetic is emitted as unsigned (or promoted) arithmetic because it wraps, and its results
  /// are converted only where the upper bits or the sign matter.
  bool exact = true;

  Text() = default;
  Text(std::string text, Prec p = Prec::Primary, bool is_exact = true)
      : s(std::move(text)), prec(p), exact(is_exact) {}

  /// Returns the text as an operand of an operator with precedence `limit`.
  std::string within(Prec limit) const { return prec <= limit ? s : "(" + s + ")"; }
};

/// Returns `a op b` for a left-associative operator.
inline Text infix(const Text& a, const std::string& op, const Text& b, Prec prec) {
  const auto tighter = static_cast<Prec>(static_cast<int>(prec) - 1);
  return {a.within(prec) + " " + op + " " + b.within(tighter), prec};
}

}  // namespace tegula::codegen::cuda
