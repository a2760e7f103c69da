// tegula opt: reads a kernel's text and prints the result of passes or verbs.
#include <fmt/format.h>

#include <fstream>
#include <iostream>
#include <iterator>

#include "ir/opt_command.h"
#include "ir/schedule/request.h"
#include "ir/schedule/text.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "runtime/jit_verbs.h"
#include "runtime/nvrtc.h"
#include "support/env.h"
#include "support/text.h"
#include "tegula/error.h"
#include "tools/assembled.h"
#include "tools/commands.h"
#include "tools/one_of.h"

namespace tegula::tools {
namespace {

struct OptOptions {
  std::string file, out, emit, target;
  std::string plan;  ///< complete plan; chosen automatically if empty
  std::string plan_changes = env().plan;
  std::string schedule;  ///< complete schedule, or edits of the plan's schedule
  std::string backend = "llvm";
  std::vector<std::string> passes;
  bool keeps_checks = false;  ///< turns assumptions into traps
  bool locations = false, timing = false, remarks = false, list = false;
};

[[noreturn]] void refuse_options(std::string message, std::string hint) {
  throw CompileError(Diagnostic{"", std::move(message), {}, {}, std::move(hint)});
}

std::string read_input(const std::string& file) {
  if (file != "-") return read_file(file);
  return {std::istreambuf_iterator<char>(std::cin), {}};
}

/// Without options, uses those in the comment on a reproducer's first line.
OptOptions with_header(OptOptions o, std::string_view text) {
  if (!o.passes.empty() || !o.emit.empty()) return o;
  const ir::OptHeader header = ir::opt_header(text);
  if (header.passes.empty()) return o;
  for (std::string_view name : split(header.passes, ',')) o.passes.emplace_back(trim(name));
  if (o.plan.empty()) o.plan = header.plan;
  if (o.plan_changes.empty()) o.plan_changes = header.plan_changes;
  o.keeps_checks = o.keeps_checks || header.keeps_checks;
  return o;
}

std::vector<ir::Pass> passes_named(const std::vector<std::string>& names) {
  const std::vector<ir::Pass> all = runtime::optimize_passes();
  std::vector<ir::Pass> chosen;
  for (const std::string& name : names) {
    const ir::Pass* pass = ir::find_pass(all, name);
    if (!pass) refuse_options("no pass is called '" + name + "'", "tegula opt --list names them");
    chosen.push_back(*pass);
  }
  return chosen;
}

/// Returns the passes of `optimize` that remain for a kernel in this form.
std::vector<ir::Pass> passes_from(ir::Form form) {
  std::vector<ir::Pass> rest = runtime::optimize_passes();
  if (form == ir::Form::Simt) return {};
  std::erase_if(rest, [&](const ir::Pass& p) { return p.takes < form; });
  return rest;
}

/// Users name the passes, so that a mismatch is reported as their mistake, not as a compiler error.
void check_chain(ir::Form form, const std::vector<ir::Pass>& passes) {
  for (const ir::Pass& p : passes) {
    if (p.takes != form)
      refuse_options(fmt::format("pass {} takes the {} form, but the kernel is in {} form here",
                                 p.name, ir::name(p.takes), ir::name(form)),
                     "tegula opt --list shows the input and output form of each pass");
    form = p.leaves;
  }
}

ir::PassContext context_of(const OptOptions& o) {
  ir::PassContext context;
  if (!o.plan.empty()) context.plan.emplace().apply(ir::parse_plan_patch(o.plan));
  context.planned = ir::parse_plan_request(o.plan_changes);
  context.keep_checks = o.keeps_checks;
  return context;
}

void run_passes(ir::Kernel& kernel, const std::vector<ir::Pass>& passes, const OptOptions& o) {
  check_chain(kernel.info.form, passes);
  ir::PassContext context = context_of(o);
  const auto timings = ir::run_pipeline(kernel, passes, context);
  if (o.timing)
    for (const ir::PassTiming& t : timings)
      fmt::print(stderr, "{:<22}{:8.3f} ms{}\n", t.name, t.ms,
                 t.changed ? "" : "  (nothing changed)");
  if (!o.remarks) return;
  if (context.plan) fmt::print(stderr, "{}\n", context.plan->str());
  for (const ir::Remark& r : context.remarks) fmt::print(stderr, "{}\n", r.str());
}

/// Runs the verbs after `optimize` and returns the requested output.
std::string code_of(ir::Kernel simt, const OptOptions& o) {
  runtime::Compilation k;
  runtime::CompileRequest request;
  request.target = simt.info.target;
  request.backend = backend_of(o.backend);
  runtime::key(k, request);
  k.name = simt.info.name;
  k.simt = std::move(simt);
  if (o.emit == "emit" && k.backend == runtime::Backend::Llvm)
    return codegen::emit_llvm(k.simt, {.lineinfo = false, .keep_source = true}).source;
  runtime::emit(k, request);
  if (o.emit == "emit") return k.emitted.source;
  if (o.emit == "ptx") {
    if (k.backend == runtime::Backend::Llvm) return k.emitted.ptx;
    return runtime::ptx_of_cuda({.source = k.emitted.source,
                                 .name = k.name + ".cu",
                                 .target = std::string(k.target.name()),
                                 .options = {}});
  }
  runtime::assemble(k, request);
  if (k.cubin.empty()) runtime::throw_missing_ptxas();
  if (o.remarks)
    fmt::print(stderr, "{}\n",
               runtime::assembler_text(k.report, k.simt.info.smem_bytes, k.cubin.size()));
  return {k.cubin.begin(), k.cubin.end()};
}

std::string result_of(const OptOptions& given) {
  const std::string text = read_input(given.file);
  ir::Kernel kernel = ir::parse(text, given.file);
  ir::verify_or_throw(kernel, "parse");
  if (!given.target.empty()) kernel.info.target = target_of(given.target);
  const OptOptions o = with_header(given, text);
  if (o.emit == "schedule") {
    if (kernel.info.form != ir::Form::Tile)
      refuse_options("--emit=schedule takes the tile form", "pass the kernel as it was traced");
    ir::PassContext context = context_of(o);
    return ir::print(ir::requested_schedule(kernel, context, o.schedule).schedule);
  }
  if (!o.passes.empty())
    run_passes(kernel, passes_named(o.passes), o);
  else if (!o.emit.empty() && o.emit != "trace")
    run_passes(kernel, passes_from(kernel.info.form), o);
  if (o.emit.empty() || o.emit == "trace" || o.emit == "optimize")
    return ir::print(kernel, {.locations = o.locations});
  if (kernel.info.form != ir::Form::Simt)
    refuse_options(
        "--emit=" + o.emit + " takes the simt form, but these passes produce another one",
        "leave out --passes");
  return code_of(std::move(kernel), o);
}

int opt(const OptOptions& o) {
  if (o.list) {
    for (const ir::Pass& p : runtime::optimize_passes())
      fmt::print("{:<22}{:<8} -> {:<8} {}\n", p.name, ir::name(p.takes), ir::name(p.leaves), p.doc);
    return 0;
  }
  if (o.file.empty())
    refuse_options("opt: no file is given", "pass a FILE, or - for standard input");
  const std::string result = result_of(o);
  if (!o.out.empty())
    write_file(o.out, result);
  else
    std::cout.write(result.data(), static_cast<std::streamsize>(result.size())).flush();
  return 0;
}

}  // namespace

void add_opt(CLI::App& program, int& exit_code) {
  CLI::App* c =
      program.add_subcommand("opt",
                             "Run passes or verbs on a kernel's text; without any, those that a "
                             "reproducer's first line names, else check and print");
  auto o = std::make_shared<OptOptions>();
  c->add_option("FILE", o->file, "Kernel in any form; - is standard input");
  auto* passes = c->add_option("--passes", o->passes, "Passes to run, comma-separated")
                     ->delimiter(',')
                     ->allow_extra_args(false);
  c->add_option("--plan", o->plan, "Plan in its printed form; default: chosen automatically");
  c->add_option("--emit", o->emit, "Compile up to this form and print it")
      ->check(one_of({"trace", "schedule", "optimize", "emit", "ptx", "cubin"}));
  c->add_option("--schedule", o->schedule,
                "For --emit=schedule: a Schedule, or edits of the one that the passes carry out");
  c->add_option("--target", o->target, "Architecture; default: the text's, else the newest")
      ->check(one_of(target_names()));
  c->add_option("--backend", o->backend, "Emitter")
      ->check(one_of(backend_names()))
      ->capture_default_str();
  c->add_option("-o,--output", o->out, "File for the result");
  c->add_flag("--checks", o->keeps_checks, "Keep assumptions as checks, as for the simulator");
  c->add_flag("--locations", o->locations, "Print source locations");
  c->add_flag("--timing", o->timing, "Print the time of each pass on standard error");
  c->add_flag("--remarks", o->remarks,
              "Print plan, remarks and the assembler's figures on standard error");
  c->add_flag("--list", o->list, "Print the passes in order")->excludes(passes);
  c->callback([o, &exit_code] { exit_code = opt(*o); });
}

}  // namespace tegula::tools
