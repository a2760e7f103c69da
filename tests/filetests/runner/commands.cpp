// The directives' commands.
#include <fmt/format.h>

#include <charconv>
#include <stdexcept>

#include "codegen/emit.h"
#include "ir/schedule/request.h"
#include "ir/schedule/text.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "support/text.h"
#include "tegula/error.h"
#include "tests/filetests/runner/file_test.h"
#include "tests/fuzz/run_program.h"

namespace tegula::filetest {
namespace {

std::vector<ir::Pass> passes_named(std::string_view list) {
  const std::vector<ir::Pass> all = runtime::optimize_passes();
  std::vector<ir::Pass> chosen;
  for (std::string_view name : split(list, ',')) {
    const ir::Pass* pass = ir::find_pass(all, trim(name));
    if (pass == nullptr) throw std::invalid_argument(fmt::format("no pass is called '{}'", name));
    chosen.push_back(*pass);
  }
  return chosen;
}

ir::Kernel verified(std::string_view text, std::string_view file) {
  ir::Kernel k = ir::parse(text, file);
  ir::verify_or_throw(k);
  return k;
}

/// "with field=value field=value: rest": the context gets the fields of the plan.
std::string_view take_plan(std::string_view command, ir::PassContext& context) {
  constexpr std::string_view kWith = "with ";
  const std::size_t end = command.find(':');
  if (!command.starts_with(kWith) || end == command.npos) return command;
  context.planned = ir::parse_plan_request(command.substr(kWith.size(), end - kWith.size()));
  return command.substr(end + 1);
}

/// By "pass,pass", "with field=value field=value: pass,pass", or "checks: pass,pass" as for the
/// simulator.
ir::Kernel optimized(std::string_view passes, std::string_view text, std::string_view file,
                     ir::PassContext& context) {
  constexpr std::string_view kChecks = "checks: ";
  ir::Kernel k = verified(text, file);
  context.keep_checks = passes.starts_with(kChecks);
  if (context.keep_checks) passes.remove_prefix(kChecks.size());
  ir::run_pipeline(k, passes_named(take_plan(passes, context)), context);
  return k;
}

std::string verify(std::string_view text, std::string_view file) {
  std::string out;
  for (const Diagnostic& d : ir::verify(ir::parse(text, file))) out += d.str() + "\n";
  return out.empty() ? "no errors\n" : out;
}

std::string opt(std::string_view passes, std::string_view text, std::string_view file) {
  ir::PassContext context;
  return ir::print(optimized(passes, text, file, context));
}

std::string remarks(std::string_view passes, std::string_view text, std::string_view file) {
  ir::PassContext context;
  optimized(passes, text, file, context);
  std::string out;
  for (const ir::Remark& r : context.remarks) out += r.str() + "\n";
  return out.empty() ? "no remarks\n" : out;
}

/// The Schedule of a plan, or what edits make of it.
std::string schedule(std::string_view edits, std::string_view text, std::string_view file) {
  ir::PassContext context;
  edits = take_plan(edits, context);
  return ir::print(ir::requested_schedule(verified(text, file), context, edits).schedule);
}

std::string emit(std::string_view back_end, std::string_view text, std::string_view file) {
  const ir::Kernel k = verified(text, file);
  if (back_end == "cuda") return codegen::emit_cuda(k).source;
  if (back_end == "llvm") return codegen::emit_llvm(k).ptx;
  throw std::invalid_argument(fmt::format("no emitter is called '{}'", back_end));
}

// ---- eval ---------------------------------------------------------------------------------------

std::int64_t integer(std::string_view word) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc() || end != word.data() + word.size())
    throw std::invalid_argument(fmt::format("'{}' is not an integer", word));
  return value;
}

/// A dense tensor; 1, 2, 3 and so on where the kernel reads it, else zeros.
fuzz::Argument tensor(ir::Type type, std::string_view extents) {
  fuzz::Argument a;
  a.dtype = type.dtype();
  a.is_view = true;
  std::int64_t count = 1;
  for (std::string_view extent : split(extents, 'x')) a.dims.push_back(integer(extent));
  if (static_cast<std::int64_t>(a.dims.size()) != type.rank())
    throw std::invalid_argument(fmt::format("{} is not of type {}", extents, type.str()));
  a.strides.resize(a.dims.size());
  for (std::size_t d = a.dims.size(); d-- > 0; count *= a.dims[d]) a.strides[d] = count;
  a.bytes.resize(static_cast<std::size_t>(count * size_bytes(a.dtype)));
  if (type.view_facts().access != ir::Access::Out)
    for (std::int64_t i = 0; i < count; ++i)
      a.put(i,
            is_float(a.dtype) ? ir::Cell{.f = static_cast<double>(i + 1)} : ir::Cell{.i = i + 1});
  return a;
}

fuzz::Arguments arguments_of(const ir::Kernel& k, std::string_view list) {
  const std::vector<std::string_view> words = split(trim(list), ' ');
  if (words.size() != k.params().size())
    throw std::invalid_argument(
        fmt::format("{} arguments for {} parameters", words.size(), k.params().size()));
  fuzz::Arguments args;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const ir::Type type = k.type(k.params()[i].value);
    if (type.is_view()) {
      args.push_back(tensor(type, words[i]));
      continue;
    }
    fuzz::Argument& a = args.emplace_back();
    a.dtype = type.dtype();
    const std::int64_t v = integer(words[i]);
    a.scalar = is_float(a.dtype) ? ir::Cell{.f = static_cast<double>(v)} : ir::Cell{.i = v};
  }
  return args;
}

/// Four digits: a sum that the interpreter forms in f64 may come from f32 elsewhere.
std::string element(const fuzz::Argument& a, std::int64_t i) {
  const ir::Cell c = a.at(i);
  return is_float(a.dtype) ? fmt::format("{:.4g}", c.f) : fmt::format("{}", c.i);
}

/// The stored values, a line a row.
std::string results(const ir::Kernel& k, const fuzz::Arguments& args) {
  std::string out;
  for (std::size_t p = 0; p < args.size(); ++p) {
    const fuzz::Argument& a = args[p];
    if (!a.is_view || k.type(k.params()[p].value).view_facts().access == ir::Access::In) continue;
    out += fmt::format("%{} =", k.params()[p].name);
    for (std::int64_t i = 0; i < a.elements(); ++i) {
      if (a.dims.size() > 1 && i % a.dims.back() == 0) out += "\n ";
      out += " " + element(a, i);
    }
    out += "\n";
  }
  return out;
}

std::string eval(std::string_view list, std::string_view text, std::string_view file) {
  const ir::Kernel k = verified(text, file);
  fuzz::Arguments args = arguments_of(k, list);
  const std::string findings = fuzz::interpret(k, args);
  return results(k, args) + findings;
}

/// The text of an error of ours, in a form that does not depend on the machine.
template <class Run>
std::string printed(const Run& run) {
  try {
    return run();
  } catch (const CompileError& e) {
    std::string out;
    for (const Diagnostic& d : e.diagnostics()) out += d.str() + "\n";
    return out;
  } catch (const DeviceError&) {  // a tool is missing: the test is skipped
    throw;
  } catch (const Error& e) {
    return fmt::format("{}\n", trim(e.what()));
  }
}

}  // namespace

std::string output_of(std::string_view command, std::string_view text, std::string_view file) {
  const std::size_t blank = std::min(command.size(), command.find(' '));
  const std::string_view verb = command.substr(0, blank), rest = trim(command.substr(blank));
  return printed([&] {
    if (verb == "verify" && rest.empty()) return verify(text, file);
    if (verb == "opt") return opt(rest, text, file);
    if (verb == "remarks") return remarks(rest, text, file);
    if (verb == "schedule") return schedule(rest, text, file);
    if (verb == "eval") return eval(rest, text, file);
    if (verb == "emit") return emit(rest, text, file);
    throw std::invalid_argument(fmt::format("no directive is called '{}'", command));
  });
}

std::string evaluated_after(std::string_view passes, std::string_view arguments,
                            std::string_view text, std::string_view file) {
  return printed([&]() -> std::string {
    ir::PassContext context;
    const ir::Kernel before = verified(text, file);
    const ir::Kernel after = optimized(passes, text, file, context);
    fuzz::Arguments args = arguments_of(before, arguments);
    if (after.info.form != ir::Form::Simt) {
      const std::string findings = fuzz::interpret(after, args);
      return results(before, args) + findings;
    }
    for (const ir::Param& p : after.params())
      if (after.type(p.value).is(ir::TypeKind::TensorMap)) return "";
    const auto grid = ir::evaluate_launch(before, fuzz::eval_args(args));
    const sim::Report report = fuzz::simulate(after, grid, args);
    return results(before, args) + (report.clean() ? "" : report.str());
  });
}

}  // namespace tegula::filetest
