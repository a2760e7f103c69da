#pragma once
// A piece of a C++ expression, with what is needed to put it into a larger one without needless
// brackets or casts.
#include <string>
#include <utility>

namespace tegula::codegen::cuda {

/// How tightly the outermost operator binds; a smaller value binds tighter.
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
  /// False where only the low bits of the C++ value are the element's: integer arithmetic wraps, so
  /// it is written in unsigned (or promoted) arithmetic and converted only where the upper bits or
  /// the sign matter.
  bool exact = true;

  Text() = default;
  Text(std::string text, Prec p = Prec::Primary, bool is_exact = true)
      : s(std::move(text)), prec(p), exact(is_exact) {}

  /// The text as an operand of something that binds like `limit`.
  std::string within(Prec limit) const { return prec <= limit ? s : "(" + s + ")"; }
};

/// `a op b` of operators that associate to the left.
inline Text infix(const Text& a, const std::string& op, const Text& b, Prec prec) {
  const auto tighter = static_cast<Prec>(static_cast<int>(prec) - 1);
  return {a.within(prec) + " " + op + " " + b.within(tighter), prec};
}

}  // namespace tegula::codegen::cuda
