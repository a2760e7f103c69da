#pragma once
// A failing program made small: ops go, values become simpler ones, constants and extents shrink,
// as long as it fails in the same way. The reduced program is printed as a file test.
#include <chrono>
#include <functional>
#include <optional>
#include <regex>
#include <set>
#include <string>

#include "ir/builder.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "tegula/error.h"
#include "tests/fuzz/run_program.h"

namespace tegula::fuzz {

struct KernelCall {
  ir::Kernel kernel;
  Arguments args;
  KernelCall(ir::Kernel k, Arguments a) : kernel(std::move(k)), args(std::move(a)) {}
  KernelCall copy() const { return {ir::clone(kernel), args}; }
};

/// How a program fails, in words; empty where it does not.
using Fails = std::function<std::string(const KernelCall&)>;

/// Interpreter and simulator differ, or one of them finds a fault, or a pass fails. Loops end soon.
inline std::string failure_of(const KernelCall& p, const std::optional<ir::Plan>& plan,
                              std::uint64_t seed) try {
  Arguments want = p.args, got = p.args;
  const ir::EvalReport found =
      ir::evaluate(p.kernel, eval_args(want),
                   {.check = true, .shuffle_seed = {}, .threads = 1, .loop_limit = 10000});
  if (!found.clean()) return "interpreter: " + found.str();
  const ir::Kernel simt = lowered(p.kernel, plan);
  const sim::Report report =
      simulate(simt, ir::evaluate_launch(p.kernel, eval_args(got)), got, seed, 5'000'000);
  if (!report.clean()) return "simulator: " + report.str();
  return difference(want, got);
} catch (const CompileError&) {
  return "";
} catch (const std::exception& e) {
  return known_gap(e.what()).empty() ? std::string("exception: ") + e.what() : "";
}

class ProgramReducer {
 public:
  /// Takes at most so many tries and about so long.
  explicit ProgramReducer(Fails fails, int max_tries = 6000,
                          std::chrono::seconds longest = std::chrono::seconds(20))
      : fails_(std::move(fails)),
        tries_left_(max_tries),
        end_(std::chrono::steady_clock::now() + longest) {}

  KernelCall reduce(const KernelCall& p) {
    KernelCall best = p.copy();
    kind_ = kind(fails_(best));
    for (bool smaller = true; smaller && tries_left_ > 0;) {
      smaller = erase_ops(best);
      smaller = replace_values(best) || smaller;
      smaller = flatten(best) || smaller;
      smaller = shrink_constants(best) || smaller;
      smaller = shrink_extents(best) || smaller;
    }
    drop_parameters(best);
    return best;
  }
  int tries_left() const { return tries_left_; }

  /// Failures of one kind begin alike.
  static std::string kind(const std::string& failure) {
    return failure.starts_with("exception") ? failure.substr(0, 60)
                                            : failure.substr(0, failure.find_first_of(" :"));
  }

 private:
  static std::vector<ir::OpId> ops_of(const ir::Kernel& k) {
    std::vector<ir::OpId> ops;
    ir::walk(k, k.body(), [&](ir::OpId op) {
      if (!ir::info(k[op].opcode).has(ir::kTerminator)) ops.push_back(op);
    });
    return ops;
  }
  static bool is_used(const ir::Kernel& k, ir::OpId op) {
    bool used = false;
    const auto uses = [&](ir::OpId user) {
      for (const ir::Value v : k[user].operands)
        for (const ir::Value r : k[op].results) used = used || v == r;
    };
    ir::walk(k, k.body(), uses);
    return used;
  }

  /// Takes the candidate where it is well formed and fails in the same way.
  bool takes(KernelCall& best, KernelCall candidate) {
    if (std::chrono::steady_clock::now() > end_) tries_left_ = 0;
    if (tries_left_ <= 0 || !ir::verify(candidate.kernel).empty()) return false;
    --tries_left_;
    const std::string failure = fails_(candidate);
    if (failure.empty() || kind(failure) != kind_) return false;
    best = std::move(candidate);
    return true;
  }

  /// Runs of ops whose results nothing needs, long ones first; from the end, so that what they
  /// needed goes with them.
  bool erase_ops(KernelCall& best) {
    bool any = false;
    for (std::size_t n = ops_of(best.kernel).size(); n > 0; n /= 2)
      for (std::size_t end = ops_of(best.kernel).size(); end > 0;) {
        KernelCall p = best.copy();
        const std::vector<ir::OpId> ops = ops_of(p.kernel);
        bool erased = false;
        for (std::size_t i = std::min(end, ops.size()); i-- > (end > n ? end - n : 0);)
          if (!p.kernel[ops[i]].erased && !is_used(p.kernel, ops[i]))
            p.kernel.erase(ops[i]), erased = true;
        any = (erased && takes(best, std::move(p))) || any;
        end = end > n ? end - n : 0;
      }
    return any;
  }

  /// Values of the same type that may stand for this result, simplest first.
  static std::vector<std::function<ir::Value(ir::Kernel&, ir::OpId)>> substitutes(
      const ir::Kernel& k, ir::OpId op, std::size_t result) {
    std::vector<std::function<ir::Value(ir::Kernel&, ir::OpId)>> list;
    const ir::Type t = k.type(k[op].results[result]);
    const bool is_number = (t.is_scalar() || t.is_tile()) && !t.is_pointer();
    if (is_number && k[op].opcode != ir::Opcode::Const)
      list.emplace_back([t](ir::Kernel& to, ir::OpId at) {
        ir::Builder b(to);
        b.before(at);
        return is_float(t.dtype()) ? b.constant(t, 1.0) : b.constant(t, std::int64_t{1});
      });
    for (std::size_t i = 0; i < k[op].operands.size(); ++i)
      if (k.type(k[op].operands[i]) == t)
        list.emplace_back([i](ir::Kernel& to, ir::OpId at) { return to[at].operands[i]; });
    return list;
  }

  bool replace_values(KernelCall& best) {
    bool any = false;
    for (std::size_t i = ops_of(best.kernel).size(); i-- > 0;)
      for (std::size_t r = 0; tries_left_ > 0; ++r) {
        const std::vector<ir::OpId> ops = ops_of(best.kernel);
        if (i >= ops.size() || r >= best.kernel[ops[i]].results.size()) break;
        if (is_used(best.kernel, ops[i])) any = replace_value(best, i, r) || any;
      }
    return any;
  }
  bool replace_value(KernelCall& best, std::size_t i, std::size_t r) {
    for (const auto& substitute : substitutes(best.kernel, ops_of(best.kernel)[i], r)) {
      KernelCall p = best.copy();
      const ir::OpId op = ops_of(p.kernel)[i];
      const ir::Value from = p.kernel[op].results[r], to = substitute(p.kernel, op);
      p.kernel.replace_all_uses(from, to);
      if (!is_used(p.kernel, op)) p.kernel.erase(op);
      if (takes(best, std::move(p))) return true;
    }
    return false;
  }

  /// A region in place of its loop or branch, once.
  bool flatten(KernelCall& best) {
    bool any = false;
    for (std::size_t i = 0; i < ops_of(best.kernel).size(); ++i)
      for (std::size_t r = 0; r < 2; ++r) {
        KernelCall p = best.copy();
        const std::vector<ir::OpId> ops = ops_of(p.kernel);
        if (i >= ops.size() || !unwrap(p.kernel, ops[i], r)) continue;
        any = takes(best, std::move(p)) || any;
      }
    return any;
  }
  static bool unwrap(ir::Kernel& k, ir::OpId op, std::size_t which) {
    const bool loops = k[op].opcode == ir::Opcode::For;
    if ((!loops && k[op].opcode != ir::Opcode::If) || which >= k[op].regions.size()) return false;
    const ir::RegionId region = k[op].regions[which];
    const ir::OpId end = k.terminator(region);
    for (std::size_t a = 0; loops && a < k[region].args.size(); ++a)
      k.replace_all_uses(k[region].args[a], k[op].operands[a == 0 ? 0 : a + 2]);
    for (std::size_t r = 0; r < k[op].results.size(); ++r)
      k.replace_all_uses(k[op].results[r], k[end].operands[r]);
    for (const ir::OpId inner : k.ops(region)) {
      if (inner == end) continue;
      k.unlink(inner);
      k.insert_before(op, inner);
    }
    k.erase(op);
    return true;
  }

  bool shrink_constants(KernelCall& best) {
    bool any = false;
    for (std::size_t i = 0; i < ops_of(best.kernel).size(); ++i)
      for (const std::int64_t way : {0, 1, 2}) {
        const std::vector<ir::OpId> ops = ops_of(best.kernel);
        const ir::AttrValue* const value = best.kernel[ops[i]].attrs.find(ir::AttrName::value);
        if (value == nullptr || !std::holds_alternative<std::int64_t>(*value)) continue;
        const std::int64_t now = std::get<std::int64_t>(*value), next = way < 2 ? way : now / 2;
        if (next == now || (now == 0 && next == 1)) continue;
        KernelCall p = best.copy();
        p.kernel[ops_of(p.kernel)[i]].attrs.set(ir::AttrName::value, next);
        if (!takes(best, std::move(p))) continue;
        any = true;
        break;
      }
    return any;
  }

  /// Every extent of tiles by a smaller one, wherever it is in their types.
  bool shrink_extents(KernelCall& best) {
    bool any = false;
    std::set<std::int64_t> extents;
    ir::walk(best.kernel, best.kernel.body(), [&](ir::OpId op) {
      for (const ir::Value v : best.kernel[op].results)
        if (best.kernel.type(v).is_tile())
          extents.insert(best.kernel.type(v).shape().begin(), best.kernel.type(v).shape().end());
    });
    for (const std::int64_t extent : extents)
      for (const std::int64_t less :
           {std::int64_t{1}, std::int64_t{4}, std::int64_t{16}, extent / 2}) {
        if (less < 1 || less >= extent) continue;
        try {
          if (!takes(best,
                     {ir::parse(with_extent(ir::print(best.kernel), extent, less)), best.args}))
            continue;
        } catch (const CompileError&) {
          continue;
        }
        any = true;
        break;
      }
    return any;
  }
  static std::string with_extent(const std::string& text, std::int64_t from, std::int64_t to) {
    static const std::regex kTile("tile<[^>]*>");
    std::string out;
    auto at = text.cbegin();
    for (std::sregex_iterator it(text.begin(), text.end(), kTile), end; it != end; ++it) {
      out.append(at, (*it)[0].first);
      out += std::regex_replace(it->str(), std::regex("([<x])" + std::to_string(from) + "(?=x)"),
                                "$01" + std::to_string(to));
      at = (*it)[0].second;
    }
    return out.append(at, text.cend());
  }

  /// Parameters that nothing uses, with their arguments.
  void drop_parameters(KernelCall& best) {
    for (std::size_t i = best.args.size(); i-- > 0;) {
      KernelCall p = best.copy();
      const ir::Value param = p.kernel.params()[i].value;
      bool used = false;
      for (const ir::RegionId r : {p.kernel.body(), p.kernel.launch()})
        ir::walk(p.kernel, r, [&](ir::OpId op) {
          for (const ir::Value v : p.kernel[op].operands) used = used || v == param;
        });
      if (used || p.kernel.params().size() != p.args.size()) continue;
      p.kernel.params().erase(p.kernel.params().begin() + static_cast<std::ptrdiff_t>(i));
      p.args.erase(p.args.begin() + static_cast<std::ptrdiff_t>(i));
      for (std::size_t a = i; a < p.args.size(); ++a)
        p.kernel.params()[a].attrs.set(ir::AttrName::arg, static_cast<std::int64_t>(a));
      takes(best, std::move(p));
    }
  }

  Fails fails_;
  int tries_left_;
  std::chrono::steady_clock::time_point end_;
  std::string kind_;
};

/// The arguments that a file test makes: dense, what is read holds 1, 2, 3 and so on.
inline Arguments file_test_arguments(const ir::Kernel& k, const Arguments& args) {
  Arguments out = args;
  for (std::size_t i = 0; i < out.size(); ++i) {
    Argument& a = out[i];
    if (!a.is_view) continue;
    std::int64_t count = 1;
    for (std::size_t d = a.dims.size(); d-- > 0; count *= a.dims[d]) a.strides[d] = count;
    a.bytes.assign(static_cast<std::size_t>(count * size_bytes(a.dtype)), std::byte{});
    if (k.type(k.params()[i].value).view_facts().access == ir::Access::Out) continue;
    for (std::int64_t e = 0; e < count; ++e)
      a.put(e,
            is_float(a.dtype) ? ir::Cell{.f = static_cast<double>(e + 1)} : ir::Cell{.i = e + 1});
  }
  return out;
}

/// A .tir file whose expectations TEGULA_BLESS=1 writes, and refuses while the fault is there.
inline std::string file_test(const KernelCall& p, const std::string& why) {
  std::string text =
      "; " + why.substr(0, why.find('\n')) + "\n" + ir::print(p.kernel) + "\n; run: eval";
  for (const Argument& a : p.args)
    text +=
        " " + (a.is_view ? fmt::format("{}", fmt::join(a.dims, "x")) : std::to_string(a.scalar.i));
  text += "\n; run: opt ";
  std::string passes;
  for (const ir::Pass& pass : runtime::optimize_passes())
    passes += (passes.empty() ? "" : ",") + std::string(pass.name);
  return text + passes + "\n";
}

/// The program made small and printed: as a file test where it fails on a file test's arguments,
/// too.
inline std::string reduced_text(const KernelCall& p, const Fails& fails) {
  const auto kind = ProgramReducer::kind;
  KernelCall dense(ir::clone(p.kernel), file_test_arguments(p.kernel, p.args));
  const bool holds = kind(fails(dense)) == kind(fails(p));
  ProgramReducer reducer(fails);
  const KernelCall small = reducer.reduce(holds ? dense : p);
  return (holds ? "" : "; Fails with strides or values that file tests do not have.\n") +
         file_test(small, fails(small));
}

}  // namespace tegula::fuzz
