#pragma once
// A piece of inline PTX, independent of the language in which it is embedded. Both emitters get
// their instruction texts from the functions in instructions.h and render them for LLVM ($n, "b"
// predicates) or for CUDA C++ (%n, predicates as integers).
#include <initializer_list>
#include <string>
#include <vector>

namespace tegula::codegen::ptx {

/// Register class of an operand: the letter of its inline-asm constraint.
enum class Reg : char {
  b16 = 'h',  ///< 8- and 16-bit values of any type
  b32 = 'r',
  b64 = 'l',
  f32 = 'f',
  f64 = 'd',
  pred = 'b',  ///< i1; CUDA C++ passes an int and the rendering converts
};

/// How an operand is used. An InOut operand is one register: it holds the input's value before the
/// text and the result after it.
enum class Role : char { Out, In, InOut };

struct Operand {
  Reg reg;
  Role role;
};

/// `text` names operand i as `#i` in the order of `operands`. It is one statement, or, if results
/// may be written before all inputs have been read, a block in braces (with local labels and
/// registers).
struct Asm {
  std::string text;
  std::vector<Operand> operands;
  bool effects = true;      ///< must be kept, once and in order (asm volatile; sideeffect)
  bool memory = false;      ///< may read or write any memory (clobber)
  bool convergent = false;  ///< needs all threads of the warp

  /// Appends `count` operands and returns the index of the first.
  int add(Reg reg, Role role, int count = 1);
};

/// Returns an instruction that may read or write memory; the caller may add operands and the text.
Asm effect(std::string text, std::initializer_list<Reg> inputs = {});
/// Returns an instruction without effects; the caller adds the text.
Asm pure(Reg result, std::initializer_list<Reg> inputs);

/// The text between the quotes of an LLVM inline asm call. `outputs` and `inputs` are operand
/// indices in the order of the results and of the arguments (an InOut operand is in both).
struct LlvmAsm {
  std::string text, constraints;
  std::vector<int> outputs, inputs;
};
LlvmAsm render_llvm(const Asm& a);

/// Returns the text with operand i replaced by `names[i]`.
std::string render_ptx(const Asm& a, const std::vector<std::string>& names);

/// Returns `asm volatile("..." : outputs : inputs : "memory");` with `names[i]` the C++ lvalue (or,
/// for an input, expression) of operand i. Out and InOut predicates must be int lvalues.
std::string render_cuda(const Asm& a, const std::vector<std::string>& names);

/// Returns operands `first` .. `first + count - 1` as a PTX vector, e.g. "{#3, #4, #5}".
std::string braces(int first, int count);

}  // namespace tegula::codegen::ptx
