// Text to IR: a recursive-descent reader of the grammar in text.h.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <limits>
#include <unordered_map>

#include "ir/plan_request.h"
#include "ir/text.h"
#include "support/errors.h"

namespace tegula::ir {
namespace {

class Parser {
 public:
  Parser(std::string_view text, std::string_view file)
      : text_(text), rest_(text), file_(intern(file)) {}

  Kernel run() {
    expect("kernel");
    expect("@");
    Kernel k(std::string(word("a kernel name")));
    kernel_ = &k;
    header();
    expect("{");
    if (try_word("launch")) region(k.launch(), /*with_args=*/false);
    ops_until_brace(k.body());
    skip();
    if (!rest_.empty()) fail("text after the kernel");
    kernel_ = nullptr;
    return k;
  }

 private:
  // ---- characters
  [[noreturn]] void fail(const std::string& message) const {
    const std::string_view read = text_.substr(0, text_.size() - rest_.size());
    const auto line = 1 + std::count(read.begin(), read.end(), '\n');
    const auto column =
        read.size() - (read.rfind('\n') == std::string_view::npos ? 0 : read.rfind('\n') + 1) + 1;
    tegula::fail(ErrorId::ir_text,
                 Loc(file_, static_cast<std::uint32_t>(line), static_cast<std::uint32_t>(column)),
                 {}, message);
  }

  void skip() {
    while (!rest_.empty()) {
      if (std::isspace(static_cast<unsigned char>(rest_.front()))) {
        rest_.remove_prefix(1);
      } else if (rest_.front() == ';') {
        rest_.remove_prefix(std::min(rest_.size(), rest_.find('\n')));
      } else {
        return;
      }
    }
  }

  bool try_token(std::string_view token) {
    skip();
    if (!rest_.starts_with(token)) return false;
    rest_.remove_prefix(token.size());
    return true;
  }

  void expect(std::string_view token) {
    if (!try_token(token)) fail(fmt::format("expected '{}'", token));
  }

  std::string_view peek_word() {
    skip();
    std::size_t n = 0;
    while (n < rest_.size() && (std::isalnum(static_cast<unsigned char>(rest_[n])) ||
                                rest_[n] == '_' || rest_[n] == '.'))
      ++n;
    return rest_.substr(0, n);
  }

  std::string_view word(const char* what) {
    const std::string_view w = peek_word();
    if (w.empty()) fail(fmt::format("expected {}", what));
    rest_.remove_prefix(w.size());
    return w;
  }

  bool try_word(std::string_view wanted) {
    if (peek_word() != wanted) return false;
    rest_.remove_prefix(wanted.size());
    return true;
  }

  std::int64_t integer() {
    skip();
    std::int64_t v = 0;
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), v);
    if (error != std::errc()) fail("expected an integer");
    rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
    return v;
  }

  std::string string() {
    expect("\"");
    std::string out;
    while (!rest_.empty() && rest_.front() != '"') {
      if (rest_.front() == '\\' && rest_.size() > 1) {
        rest_.remove_prefix(1);
        out += rest_.front() == 'n' ? '\n' : rest_.front();
      } else {
        out += rest_.front();
      }
      rest_.remove_prefix(1);
    }
    expect("\"");
    return out;
  }

  Type type() {
    skip();
    const auto t = parse_type(rest_);
    if (!t) fail("expected a type");
    return *t;
  }

  /// Parses the fields before a ')'.
  PlanPatch plan_patch() {
    const std::string_view fields = rest_.substr(0, rest_.find(')'));
    rest_.remove_prefix(fields.size());
    return parse_plan_patch(fields);
  }

  // ---- kernel
  void header() {
    KernelInfo& info = kernel_->info;
    const auto form = parse_form(word("a form: tile, machine or simt"));
    if (!form) fail("expected a form: tile, machine or simt");
    info.form = *form;
    while (!try_token("(")) {
      const std::string_view key = word("a kernel property or '('");
      expect("(");
      if (key == "target")
        info.target = target();
      else if (key == "threads")
        info.threads = static_cast<int>(integer());
      else if (key == "smem")
        info.smem_bytes = integer();
      else if (key == "cluster")
        info.cluster = static_cast<int>(integer());
      else if (key == "min_ctas_per_sm")
        info.min_ctas_per_sm = static_cast<int>(integer());
      else if (key == "persistent")
        info.persistent = integer() != 0;
      else if (key == "prefers")
        info.preferred = plan_patch();
      else
        fail(fmt::format("unknown kernel property '{}'", key));
      expect(")");
    }
    if (try_token(")")) return;
    do {
      expect("%");
      const std::string name(word("a parameter name"));
      expect(":");
      const Type t = type();
      AttrList attrs = attributes();
      define(name, kernel_->add_param(name, t, std::move(attrs)));
    } while (try_token(","));
    expect(")");
  }

  Target target() {
    const std::string_view name = word("a target");
    const auto target = Target::find(name);
    if (!target) fail(fmt::format("unknown target '{}': there are {}", name, Target::all_names()));
    return *target;
  }

  void define(std::string_view name, Value v) {
    if (!values_.emplace(name, v).second) fail(fmt::format("%{} is defined twice", name));
  }

  Value use() {
    expect("%");
    const std::string_view name = word("a value name");
    const auto it = values_.find(std::string(name));
    if (it == values_.end()) fail(fmt::format("%{} is not defined", name));
    return it->second;
  }

  // ---- attributes
  AttrList attributes() {
    AttrList list;
    if (!try_token("[")) return list;
    do {
      const std::string_view name = word("an attribute name");
      const auto attr = find_attr(name);
      if (!attr) fail(fmt::format("unknown attribute '{}'", name));
      expect("=");
      list.set(*attr, attribute_value(*attr));
    } while (try_token(","));
    expect("]");
    return list;
  }

  AttrValue attribute_value(AttrName attr) {
    skip();
    const AttrKind kind = ir::info(attr).kind;
    if (kind == AttrKind::Str) return intern(string());
    if (kind == AttrKind::Ints) return int_list();
    const AttrValue value = number();
    if (kind == AttrKind::Int && !std::holds_alternative<std::int64_t>(value))
      fail(fmt::format("attribute '{}' is an integer", ir::info(attr).name));
    return value;
  }

  AttrValue int_list() {
    Ints list;
    expect("[");
    if (try_token("]")) return list;
    do list.push_back(integer());
    while (try_token(","));
    expect("]");
    return list;
  }

  AttrValue number() {
    if (try_word("inf")) return std::numeric_limits<double>::infinity();
    if (try_token("-inf")) return -std::numeric_limits<double>::infinity();
    if (try_word("nan")) return std::numeric_limits<double>::quiet_NaN();
    skip();
    std::size_t n = rest_.find_first_not_of("+-0123456789.eE");
    const std::string_view digits = rest_.substr(0, n);
    if (digits.find_first_of(".eE") == std::string_view::npos) return integer();
    double v = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), v);
    if (error != std::errc()) fail("expected a number");
    rest_.remove_prefix(static_cast<std::size_t>(end - digits.data()));
    return v;
  }

  // ---- ops
  void ops_until_brace(RegionId region) {
    while (!try_token("}")) op(region);
  }

  void region(RegionId r, bool with_args) {
    // Passes recurse into regions, as this parser does.
    constexpr int kMaxNested = 100;
    if (nested_ == kMaxNested) fail(fmt::format("more than {} regions in each other", kMaxNested));
    ++nested_;
    expect("{");
    if (with_args && try_token("(")) {
      do {
        expect("%");
        const std::string name(word("an argument name"));
        expect(":");
        define(name, kernel_->add_arg(r, type()));
      } while (try_token(","));
      expect(")");
    }
    ops_until_brace(r);
    --nested_;
  }

  std::vector<std::string> result_names() {
    std::vector<std::string> names;
    skip();
    if (!rest_.starts_with("%")) return names;
    do {
      expect("%");
      names.emplace_back(word("a result name"));
    } while (try_token(","));
    expect("=");
    return names;
  }

  void op(RegionId region_id) {
    Kernel& k = *kernel_;
    const auto names = result_names();
    const std::string_view mnemonic = word("an op");
    const auto opcode = find_op(mnemonic);
    if (!opcode) fail(fmt::format("unknown op '{}'", mnemonic));
    std::vector<Value> operands;
    skip();
    if (rest_.starts_with("%")) {
      // The next op's results also begin with '%'; the '=' after them distinguishes them.
      if (!next_is_definition()) do
          operands.push_back(use());
        while (try_token(","));
    }
    AttrList attrs = attributes();
    const auto types = result_types(*opcode, operands, attrs, names.size());
    const OpId made = k.make_op(*opcode, operands, types, Loc());
    k[made].attrs = std::move(attrs);
    k.append(region_id, made);
    for (skip(); rest_.starts_with("{"); skip()) region(k.add_region(made), /*with_args=*/true);
    k[made].loc = location();
    for (std::size_t i = 0; i < names.size(); ++i) define(names[i], k[made].results[i]);
  }

  bool next_is_definition() {
    std::string_view s = rest_;
    for (;;) {
      std::size_t n = 1;
      while (n < s.size() &&
             (std::isalnum(static_cast<unsigned char>(s[n])) || s[n] == '_' || s[n] == '.'))
        ++n;
      s.remove_prefix(n);
      s.remove_prefix(std::min(s.size(), s.find_first_not_of(" \t")));
      if (s.starts_with("=")) return true;
      if (!s.starts_with(",")) return false;
      s.remove_prefix(1);
      s.remove_prefix(std::min(s.size(), s.find_first_not_of(" \t\n")));
      if (!s.starts_with("%")) return false;
    }
  }

  std::vector<Type> result_types(Opcode opcode, const std::vector<Value>& operands,
                                 const AttrList& attrs, std::size_t count) {
    std::vector<Type> types;
    if (try_token(":")) {
      do types.push_back(type());
      while (try_token(","));
    } else if (count != 0) {
      types = inferred_types(opcode, operands, attrs);
    }
    if (types.size() != count)
      fail(fmt::format("{}: {} results named, {} types", ir::info(opcode).mnemonic, count,
                       types.size()));
    return types;
  }

  std::vector<Type> inferred_types(Opcode opcode, const std::vector<Value>& operands,
                                   const AttrList& attrs) {
    const OpInfo& row = ir::info(opcode);
    if (!row.infer) fail(fmt::format("{}: result types must be written", row.mnemonic));
    if (static_cast<int>(operands.size()) < row.operands.min)
      fail(fmt::format("{}: too few operands", row.mnemonic));
    std::vector<Type> operand_types;
    for (Value v : operands) operand_types.push_back(kernel_->type(v));
    Inferred inferred = row.infer({operand_types, attrs});
    if (!inferred.error.empty()) fail(fmt::format("{}: {}", row.mnemonic, inferred.error));
    return std::move(inferred.types);
  }

  Loc location() {
    if (!try_token("loc(")) return {};
    const char* file = intern(string());
    expect(":");
    const auto line = static_cast<std::uint32_t>(integer());
    expect(":");
    const auto column = static_cast<std::uint32_t>(integer());
    expect(")");
    return {file, line, column};
  }

  std::string_view text_, rest_;
  const char* file_;
  Kernel* kernel_ = nullptr;
  std::unordered_map<std::string, Value> values_;
  int nested_ = 0;  ///< number of regions that enclose the current position
};

}  // namespace

Kernel parse(std::string_view text, std::string_view file_name) {
  return Parser(text, file_name).run();
}

}  // namespace tegula::ir
