// Prints IR as text.
#include <fmt/format.h>

#include <cmath>
#include <unordered_map>
#include <unordered_set>

#include "ir/plan_request.h"
#include "ir/text.h"

namespace tegula::ir {
namespace {

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (c == '\n')
      out += "\\n";
    else
      out += c;
  }
  return out + '"';
}

std::string float_text(double v) {
  if (std::isnan(v)) return "nan";
  if (std::isinf(v)) return v < 0 ? "-inf" : "inf";
  std::string text = fmt::format("{}", v);
  // A float must be parsed as a float again.
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

struct AttrText {
  std::string operator()(std::int64_t v) const { return fmt::format("{}", v); }
  std::string operator()(double v) const { return float_text(v); }
  std::string operator()(const char* v) const { return quoted(v); }
  std::string operator()(const Ints& v) const {
    std::string out = "[";
    for (std::size_t i = 0; i < v.size(); ++i) out += fmt::format("{}{}", i ? ", " : "", v[i]);
    return out + "]";
  }
};

std::string attrs_text(const AttrList& attrs) {
  if (attrs.empty()) return "";
  std::string out = " [";
  bool first = true;
  for (const auto& [name, value] : attrs.all()) {
    out +=
        fmt::format("{}{} = {}", first ? "" : ", ", info(name).name, std::visit(AttrText{}, value));
    first = false;
  }
  return out + "]";
}

class Printer {
 public:
  Printer(const Kernel& k, PrintOptions options) : k_(k), options_(options) {
    for (const Param& p : k.params()) taken_.insert(names_[p.value] = "%" + p.name);
  }

  std::string kernel() {
    header();
    if (k_[k_.launch()].first) {
      out_ += "  launch ";
      region(k_.launch(), 1);
      out_ += '\n';
    }
    ops(k_.body(), 1);
    out_ += "}\n";
    return std::move(out_);
  }

  std::string single(OpId op) {
    line(op, 0, false);
    return std::move(out_);
  }

 private:
  void header() {
    const KernelInfo& info = k_.info;
    out_ += fmt::format("kernel @{} {} target({})", info.name, name(info.form), info.target.name());
    if (info.threads != 0) out_ += fmt::format(" threads({})", info.threads);
    if (info.smem_bytes != 0) out_ += fmt::format(" smem({})", info.smem_bytes);
    if (info.cluster != 1) out_ += fmt::format(" cluster({})", info.cluster);
    if (info.min_ctas_per_sm != 1)
      out_ += fmt::format(" min_ctas_per_sm({})", info.min_ctas_per_sm);
    if (info.persistent) out_ += " persistent(1)";
    if (info.preferred != PlanPatch()) out_ += fmt::format(" prefers({})", str(info.preferred));
    out_ += " (";
    bool first = true;
    for (const Param& p : k_.params()) {
      out_ += fmt::format("{}%{}: {}{}", first ? "" : ", ", p.name, k_.type(p.value).str(),
                          attrs_text(p.attrs));
      first = false;
    }
    out_ += ") {\n";
  }

  std::string& value_name(Value v) {
    auto [it, fresh] = names_.try_emplace(v);
    if (fresh) do
        it->second = fmt::format("%{}", next_++);
      while (taken_.contains(it->second));
    return it->second;
  }

  template <class List, class Text>
  void list(const List& items, Text text) {
    bool first = true;
    for (const auto& item : items) {
      if (!first) out_ += ", ";
      first = false;
      out_ += text(item);
    }
  }

  void ops(RegionId r, int depth) {
    for (OpId op : k_.ops(r)) {
      line(op, depth, true);
      out_ += '\n';
    }
  }

  void line(OpId op, int depth, bool with_regions) {
    const OpData& d = k_[op];
    out_.append(static_cast<std::size_t>(2 * depth), ' ');
    if (!d.results.empty()) {
      list(d.results, [&](Value v) { return value_name(v); });
      out_ += " = ";
    }
    out_ += info(d.opcode).mnemonic;
    if (!d.operands.empty()) out_ += ' ';
    list(d.operands, [&](Value v) { return value_name(v); });
    out_ += attrs_text(d.attrs);
    if (!d.results.empty()) {
      out_ += " : ";
      list(d.results, [&](Value v) { return k_.type(v).str(); });
    }
    for (RegionId r : d.regions) {
      out_ += ' ';
      if (with_regions)
        region(r, depth);
      else
        out_ += "{...}";
    }
    if (options_.locations && d.loc.known())
      out_ += fmt::format(" loc({}:{}:{})", quoted(d.loc.file), d.loc.line, d.loc.column);
  }

  void region(RegionId r, int depth) {
    out_ += '{';
    if (!k_[r].args.empty()) {
      out_ += " (";
      list(k_[r].args, [&](Value v) { return value_name(v) + ": " + k_.type(v).str(); });
      out_ += ')';
    }
    out_ += '\n';
    ops(r, depth + 1);
    out_.append(static_cast<std::size_t>(2 * depth), ' ');
    out_ += '}';
  }

  const Kernel& k_;
  PrintOptions options_;
  std::string out_;
  std::unordered_map<Value, std::string> names_;
  std::unordered_set<std::string> taken_;  ///< names used by parameters
  int next_ = 0;
};

}  // namespace

std::string print(const Kernel& kernel, PrintOptions options) {
  return Printer(kernel, options).kernel();
}

std::string print_op(const Kernel& kernel, OpId op) {
  return Printer(kernel, {.locations = false}).single(op);
}

}  // namespace tegula::ir
