// tegula schedule: draws the Schedule of a kernel, or searches for a better one.
#include <fmt/format.h>

#include "ir/schedule/request.h"
#include "ir/schedule/search.h"
#include "ir/schedule/text.h"
#include "ir/schedule/timeline.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "support/env.h"
#include "support/text.h"
#include "tools/assembled.h"
#include "tools/commands.h"
#include "tools/one_of.h"
#include "tools/schedule_picture.h"

namespace tegula::tools {
namespace {

struct ScheduleOptions {
  std::string file, target, svg;
  std::string plan_changes = env().plan;
  std::string schedule;  ///< complete schedule, or edits of the plan's schedule
  ir::SearchOptions search;
  int iterations = 6, tiles = 1;
};

ir::CarriedOut requested(const ScheduleOptions& o) {
  ir::Kernel kernel = ir::parse(read_file(o.file), o.file);
  ir::verify_or_throw(kernel, "parse");
  if (!o.target.empty()) kernel.info.target = target_of(o.target);
  ir::PassContext context;
  context.planned = ir::parse_plan_request(o.plan_changes);
  return ir::requested_schedule(kernel, context, o.schedule);
}

void draw_schedule(const ScheduleOptions& o, const ir::CarriedOut& done, const ir::Schedule& s) {
  const PictureOptions options{done.machine.info.name, {}, o.iterations, o.tiles};
  if (!o.svg.empty()) write_file(o.svg, schedule_svg(done.machine, s, options));
}

int show_schedule(const ScheduleOptions& o) {
  const ir::CarriedOut done = requested(o);
  const auto cycles = ir::cycles_of_iteration(done.machine, ir::Graph(done.machine), done.schedule);
  fmt::print("{}", ir::print(done.schedule));
  if (cycles) fmt::print("# {:.0f} cycles per iteration, by the model\n", *cycles);
  draw_schedule(o, done, done.schedule);
  return 0;
}

int search(const ScheduleOptions& o) {
  const ir::CarriedOut done = requested(o);
  const ir::Graph graph(done.machine);
  const auto before = ir::cycles_of_iteration(done.machine, graph, done.schedule);
  const ir::SearchResult found = ir::search_schedules(done.machine, graph, done.schedule, o.search);
  fmt::print("{}# {:.0f} cycles per iteration, {:.0f} before, by the model; {} tried, {} legal\n",
             ir::print(found.schedule), found.cycles, before.value_or(0), found.tried, found.legal);
  draw_schedule(o, done, found.schedule);
  return 0;
}

void add_common(CLI::App* c, ScheduleOptions& o) {
  c->add_option("FILE", o.file, "Kernel in tile form")->required();
  c->add_option("--schedule", o.schedule,
                "A Schedule, or edits of the one that the passes carry out");
  c->add_option("--target", o.target, "Architecture; default: the text's, else the newest")
      ->check(one_of(target_names()));
  c->add_option("--svg", o.svg, "Also draw roles, rings and their timeline to this file");
  c->add_option("--iterations", o.iterations, "Iterations of each loop in the picture")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  c->add_option("--tiles", o.tiles, "Tiles in the picture")
      ->check(CLI::Range(1, 16))
      ->capture_default_str();
}

}  // namespace

void add_schedule(CLI::App& program, int& exit_code) {
  CLI::App* c = program.add_subcommand("schedule", "Schedules of a kernel's text");
  c->require_subcommand(1);
  auto o = std::make_shared<ScheduleOptions>();
  CLI::App* shown = c->add_subcommand("show", "Check a Schedule, print it and draw it");
  add_common(shown, *o);
  shown->callback([o, &exit_code] { exit_code = show_schedule(*o); });
  CLI::App* searched = c->add_subcommand(
      "search", "Search for a faster one by list scheduling, random restarts and local moves");
  add_common(searched, *o);
  searched->add_option("--restarts", o->search.restarts, "Random restarts")->capture_default_str();
  searched->add_option("--moves", o->search.moves, "Moves of each restart")->capture_default_str();
  searched->add_option("--seed", o->search.seed, "Seed of the random numbers")
      ->capture_default_str();
  searched->callback([o, &exit_code] { exit_code = search(*o); });
}

}  // namespace tegula::tools
