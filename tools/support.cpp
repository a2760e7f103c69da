// tegula support: generates docs/support-matrix.md, the support of operations on types, targets and
// executors.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iostream>

#include "ir/op.h"
#include "runtime/doctor.h"
#include "support/markdown.h"
#include "support/text.h"
#include "tools/assembled.h"
#include "tools/commands.h"
#include "tools/support_matrix.h"

namespace tegula::tools {
namespace {

constexpr int kSkipped = 77;  ///< exit code for a skipped test

constexpr std::string_view kIntroduction = R"(# Support matrix

Written by `tegula support`, which makes a kernel for every cell, traces it, runs it on `cpu` and on `sim`, and emits
it for sm_80 and sm_90a by LLVM and by the emitter of CUDA C++ (for NVRTC). `page_support_matrix` keeps the page
current, and has ptxas and NVRTC, where they are, assemble each 32nd cell (`long_assemble_support_matrix`: every one).
The signs:

- ● all six take it, and `cpu` and `sim` compute the same bits.
- ○ the same, by a loop of compare-and-swap, for the hardware has no such instruction.
- ◐ all six take it; `cpu` and `sim` may differ in the last bits.
- A letter: refused, or not everywhere; the last section says by whom and why. Codes are those of
  [error codes](language/error-codes.md).
)";

/// Assigns letters to reasons in order of appearance.
class Reasons {
 public:
  std::string sign(const Outcome& o) {
    if (o.everywhere()) return !o.same_bits ? "◐" : o.compares_and_swaps ? "○" : "●";
    const std::string text = text_of(o);
    auto at = std::ranges::find(texts_, text);
    if (at == texts_.end()) at = texts_.insert(at, text);
    return std::string(1, static_cast<char>('a' + (at - texts_.begin())));
  }
  std::string list() const {
    std::string out;
    for (std::size_t i = 0; i < texts_.size(); ++i)
      out += markdown_item(fmt::format("{}: {}", static_cast<char>('a' + i), texts_[i]));
    return out;
  }

 private:
  static std::string text_of(const Outcome& o) {
    if (o.nowhere()) return "everywhere: " + o.refusals[0];
    std::map<std::string, std::vector<std::string_view>> by_reason;
    for (std::size_t i = 0; i < kExecutors.size(); ++i)
      if (!o.refusals[i].empty()) by_reason[o.refusals[i]].push_back(kExecutors[i]);
    std::string text;
    for (const auto& [reason, who] : by_reason)
      text += fmt::format("{}{}: {}", text.empty() ? "" : "; ", fmt::join(who, ", "), reason);
    return text;
  }
  std::vector<std::string> texts_;
};

std::string type_header(std::string_view first, std::string_view last) {
  std::string names, line;
  for (const DTypeInfo& t : kDTypeInfo) {
    names += fmt::format("{}|", t.name);
    line += "-|";
  }
  return fmt::format("\n| {} |{}{}\n|---|{}{}\n", first, names,
                     last.empty() ? "" : fmt::format(" {} |", last), line,
                     last.empty() ? "" : "---|");
}

/// Returns the ops of a row beyond those of a plain load and store; only their number if a function
/// consists of many ops.
std::string own_ops(const OperationSupport& row, const OperationSupport& plain) {
  std::set<std::string> own;
  for (std::size_t i = 0; i < row.outcomes.size(); ++i)
    for (const auto& [op, count] : row.outcomes[i].ops) {
      const auto& common = plain.outcomes[i].ops;
      const auto at = common.find(op);
      if (at == common.end() || at->second < count) own.insert(op);
    }
  for (const char* shape :
       {"const", "splat", "broadcast", "expand_dims", "load_view", "yield", "cast"})
    own.erase(shape);
  constexpr std::size_t kListed = 6;
  if (own.size() > kListed) return fmt::format("{} kinds", own.size());
  return fmt::format("{}", fmt::join(own, " "));
}

std::string operations_text(const std::vector<OperationSupport>& all, Reasons& reasons) {
  std::string out, group;
  for (const OperationSupport& row : all) {
    if (row.group != group) out += fmt::format("\n## {}\n{}", row.group, type_header("", "ops"));
    group = row.group;
    std::string text = row.text;
    for (std::size_t at = 0; (at = text.find('|', at)) != std::string::npos; at += 2)
      text.insert(at, "\\");
    out += fmt::format("| `{}` |", text);
    for (const Outcome& o : row.outcomes) out += fmt::format("{}|", reasons.sign(o));
    out += fmt::format(" {} |\n", own_ops(row, all.front()));
  }
  return out;
}

std::string casts_text(const std::vector<OperationSupport>& all, Reasons& reasons) {
  std::string out = "\n## cast<column>(row)\n" + type_header("", "");
  for (const OperationSupport& row : all) {
    out += fmt::format("| {} |", row.text);
    for (const Outcome& o : row.outcomes) out += fmt::format("{}|", reasons.sign(o));
    out += "\n";
  }
  return out;
}

/// Returns the unit that multiplies and the path of its operands, from the simt form.
std::string unit_of(const Outcome& o, const std::string& target) {
  const auto found = o.simt_ops.find(target);
  if (found == o.simt_ops.end()) return "-";
  const auto has = [&](ir::Opcode op) {
    return found->second.contains(std::string(ir::info(op).mnemonic));
  };
  const char* unit = has(ir::Opcode::Wgmma) ? "wgmma" : has(ir::Opcode::Mma) ? "mma.sync" : "FMA";
  const char* way = has(ir::Opcode::TmaLoad)   ? "TMA"
                    : has(ir::Opcode::CpAsync) ? "cp.async"
                                               : "loads";
  return fmt::format("{}, {}", unit, way);
}

std::string products_text(const std::vector<ProductSupport>& all, Reasons& reasons) {
  std::string out =
      "\n## Matrix products\n\n`acc = dot(A(m, k), B, acc)` of 64 x 64 sums over 256 terms: the "
      "unit that multiplies, "
      "and how operands reach it.\nB is `B(k, n)` of a tensor [K, N], or `B(n, k).T()` of one that "
      "is [N, K].\n\n"
      "| operands | sums | tiles | sm_80 | sm_90a, [K, N] | sm_90a, [N, K] "
      "|\n|---|---|---|---|---|---|\n";
  const std::vector<std::string> targets = target_names();
  for (const ProductSupport& p : all) {
    if (p.k_by_n.nowhere() && p.n_by_k.nowhere()) continue;
    out += fmt::format("| {} | {} | {} {} | {} | {} | {} |\n", p.operands, p.accumulator,
                       reasons.sign(p.k_by_n), reasons.sign(p.n_by_k),
                       unit_of(p.k_by_n, targets.front()), unit_of(p.k_by_n, targets.back()),
                       unit_of(p.n_by_k, targets.back()));
  }
  std::vector<std::string> refused;
  for (const ProductSupport& p : all)
    if (p.k_by_n.nowhere()) refused.push_back(p.operands);
  return out + fmt::format("\nNo products of {}.\n", fmt::join(refused, ", "));
}

std::string features_text(const std::vector<FeatureSupport>& all, Reasons& reasons) {
  std::string out = "\n## Without an element type\n\n| |";
  for (std::string_view e : kExecutors) out += fmt::format(" {} |", e);
  out += "\n|---|---|---|---|---|---|---|\n";
  for (const FeatureSupport& f : all) {
    const std::string sign = reasons.sign(f.outcome);
    out += fmt::format("| {} |", f.text);
    for (const std::string& r : f.outcome.refusals)
      out += fmt::format(" {} |", r.empty() ? "●" : sign);
    out += "\n";
  }
  return out;
}

/// Returns the ops of the language's families that no user kernel can contain, each with the
/// reason.
const std::map<std::string_view, std::string_view>& unasked() {
  static const std::map<std::string_view, std::string_view> kReasons{
      {"cluster_tile", "made by the pass `make_persistent`"},
      {"with_gradient", "no instruction: `remove_gradients` replaces it by its value"}};
  return kReasons;
}

/// Returns the ops of the language's families that are in no kernel of the page and not in
/// unasked(): they need a row.
std::vector<std::string> ops_without_row(const std::set<std::string>& seen) {
  std::vector<std::string> missing;
  for (const ir::OpInfo& row : ir::all_ops()) {
    const bool is_language = row.family == ir::Family::Elementwise ||
                             row.family == ir::Family::Math || row.family == ir::Family::Tile;
    if (is_language && !seen.contains(std::string(row.mnemonic)) &&
        !unasked().contains(row.mnemonic))
      missing.emplace_back(row.mnemonic);
  }
  return missing;
}

std::string unasked_text() {
  std::vector<std::string> list;
  for (const auto& [op, reason] : unasked()) list.push_back(fmt::format("`{}` ({})", op, reason));
  return "\n" +
         markdown_paragraph(fmt::format(
             "Ops of [the tile form](ir.md) in none of these kernels: {}.", fmt::join(list, ", ")));
}

/// Returns the page, and the ops without a row.
std::pair<std::string, std::vector<std::string>> page(AssembledShare assembled) {
  Reasons reasons;
  const auto operations = operation_support(assembled);
  const auto casts = cast_support(assembled);
  const auto products = product_support(assembled);
  const auto features = feature_support(assembled);
  std::set<std::string> seen;
  const auto note = [&](const Outcome& o) {
    for (const auto& [op, count] : o.ops) seen.insert(op);
  };
  for (const auto& list : {operations, casts})
    for (const OperationSupport& row : list)
      for (const Outcome& o : row.outcomes) note(o);
  for (const ProductSupport& p : products) note(p.n_by_k);
  for (const FeatureSupport& f : features) note(f.outcome);
  std::string out(kIntroduction);
  out += operations_text(operations, reasons);
  out += casts_text(casts, reasons);
  out += products_text(products, reasons);
  out += features_text(features, reasons);
  return {out + "\n## Letters\n\n" + reasons.list() + unasked_text(), ops_without_row(seen)};
}

int support(int assemble_every, const std::string& out) {
  const runtime::Diagnosis here = runtime::diagnose();
  for (const char* part : {"LLVM", "ptxas", "NVRTC"})
    if (!here.finding(part).present && (assemble_every > 0 || std::string_view(part) == "LLVM")) {
      fmt::print(stderr, "tegula support: {} is missing, see tegula doctor\n", part);
      return kSkipped;
    }
  const auto [text, missing] = page(AssembledShare(assemble_every));
  if (!missing.empty()) {
    fmt::print(stderr, "tegula support: no row of tools/support_matrix.def or feature has {}\n",
               fmt::join(missing, ", "));
    return 1;
  }
  if (out.empty())
    std::cout << text << std::flush;
  else
    write_file(out, text);
  return 0;
}

}  // namespace

void add_support(CLI::App& program, int& exit_code) {
  CLI::App* c = program.add_subcommand(
      "support", "Which ops work on which element types, targets and executors, as Markdown");
  struct Options {
    int assemble_every = 0;
    std::string out;
  };
  auto o = std::make_shared<Options>();
  c->add_option("--assemble", o->assemble_every,
                "Also assemble every N-th kernel with ptxas and NVRTC; 1: all, default: none")
      ->check(CLI::NonNegativeNumber);
  c->add_option("-o,--output", o->out, "File for the page; default: standard output");
  c->callback([o, &exit_code] { exit_code = support(o->assemble_every, o->out); });
}

}  // namespace tegula::tools
