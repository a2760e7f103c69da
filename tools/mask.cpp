// tegula mask NAME: shows the analysis of a mask of the library as a picture of its blocks.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>

#include "kernels/attention/kv_traversal.h"
#include "tegula/device_profile.h"
#include "tegula/error.h"
#include "tegula/tegula.h"
#include "tools/commands.h"
#include "tools/mask_entries.h"
#include "tools/mask_picture.h"
#include "tools/mask_png.h"
#include "tools/mask_work.h"
#include "tools/one_of.h"
#include "tools/workload/mask_ranges.h"
#include "tools/workload/traced_mask.h"

namespace tegula::tools {
using namespace kernels;
namespace {

using ir::BlockCoverage;

struct MaskOptions {
  std::string name, svg, png;
  MaskLengths lengths;
  int bm = 128, bn = 128;
  std::vector<int> numbers;  ///< override the entry's numbers
  HeadShape heads;
  bool work = false, order = false;
};

char sign(BlockCoverage c) {
  return c == BlockCoverage::Empty ? '.' : c == BlockCoverage::Full ? '#' : '/';
}

/// Returns one row of blocks for each query tile.
std::vector<std::vector<BlockCoverage>> grid_of(ir::MaskBlocks& blocks,
                                                const ir::MaskParams& params,
                                                const MaskOptions& o) {
  std::vector<std::vector<BlockCoverage>> rows;
  const auto [queries, keys] = o.lengths;
  for (int q = 0; q < queries; q += o.bm) {
    rows.emplace_back();
    for (int kv = 0; kv < keys; kv += o.bn)
      rows.back().push_back(blocks.classify(
          {0, 0, q, std::min(q + o.bm, queries), kv, std::min(kv + o.bn, keys)}, params));
  }
  return rows;
}

std::string ranges_text(const IntervalSet& set) {
  std::string text;
  for (const ir::Interval i : set.parts()) text += fmt::format(" {}..{}", i.lo, i.hi);
  return text.empty() ? " none" : text;
}

void write_picture(const std::string& path, const std::string& text) {
  std::ofstream out(path, std::ios::binary);
  out << text << std::flush;
  if (!out) throw CompileError(Diagnostic{"", "mask: cannot write " + path, {}, {}, ""});
}

void show_mask(const MaskOptions& o, const Mask& mask) {
  const TracedMask traced = trace_mask(mask);
  const ir::MaskClosedForm form = ir::solve_mask(traced.expr);
  const ir::MaskParams params = traced.params();
  ir::MaskBlocks blocks(traced.expr);
  MaskRanges ranges(form);
  MaskPicture picture;
  const auto say = [&](const std::string& line) {
    fmt::print("{}\n", line);
    picture.caption.push_back(line);
  };
  say(fmt::format("{}: {}", o.name, traced.expr.str()));
  say(fmt::format("class {}: {}", name(form.mask_class), form.reason));
  say("attention visits " + KvTraversal({.mask = mask}).text());
  picture.rows = grid_of(blocks, params, o);
  const auto& rows = picture.rows;
  std::array<std::int64_t, 3> counts{};
  for (std::size_t y = 0; y < rows.size(); ++y) {
    std::string line;
    for (const BlockCoverage c : rows[y]) {
      line += sign(c);
      ++counts[static_cast<std::size_t>(c)];
    }
    const int q = static_cast<int>(y) * o.bm, end = std::min(q + o.bm, o.lengths.q);
    const KvVisibility cover = ranges.cover({0, 0, q, end, o.lengths.kv}, params);
    picture.notes.push_back(fmt::format("q {}..{} sees{}, all of it{}", q, end - 1,
                                        ranges_text(cover.visible), ranges_text(cover.full)));
    fmt::print("{}  {}\n", line, picture.notes.back());
  }
  const std::int64_t computed = counts[1] + counts[2];
  say(fmt::format("blocks {} x {}: {} empty, {} partial, {} full; {:.2f} % of them are computed",
                  o.bm, o.bn, counts[0], counts[1], counts[2],
                  100 * static_cast<double>(computed) / static_cast<double>(counts[0] + computed)));
  const AttentionWorkload pairs = pairs_under(mask, o.lengths, o.heads);
  if (pairs.kept)
    say(fmt::format("density {:.2f} %", 100 * static_cast<double>(*pairs.kept) /
                                            (static_cast<double>(o.lengths.q) * o.lengths.kv)));
  say(text(pairs));
  if (!o.svg.empty()) write_picture(o.svg, svg(picture));
  if (!o.png.empty()) write_picture(o.png, png(picture));
}

int draw_mask(const MaskOptions& o) {
  if (o.work) {
    fmt::print("{}", work_table(o.heads));
    return 0;
  }
  if (o.order) {
    fmt::print("{}", order_table(o.heads));
    return 0;
  }
  if (o.name.empty()) {
    fmt::print(stderr, "mask: pass the NAME of a mask, --work or --order\n");
    return 2;
  }
  const MaskEntry& entry = mask_entry(o.name);
  MaskScalars numbers = entry.numbers;
  if (o.numbers.size() > numbers.size()) {
    const std::string defaults =
        numbers.empty() ? "" : fmt::format(", by default {}", fmt::join(numbers, ","));
    fmt::print(stderr, "mask: {} has {} number{}{}; {} were given\n", o.name, numbers.size(),
               numbers.size() == 1 ? "" : "s", defaults, o.numbers.size());
    return 2;
  }
  std::ranges::copy(o.numbers, numbers.begin());
  show_mask(o, entry.make(numbers, o.lengths));
  return 0;
}

/// Rejects file names with the extension of another format. Names without an extension, such as
/// /dev/stdout, are accepted.
CLI::Validator named(std::string ending) {
  const auto check = [ending](const std::string& path) {
    const std::string its = std::filesystem::path(path).extension().string();
    return its.empty() || its == ending
               ? std::string()
               : fmt::format("{} ends in {}: this option writes a {} file", path, its, ending);
  };
  return {check, "FILE" + ending};
}

}  // namespace

void add_mask(CLI::App& program, int& exit_code) {
  CLI::App* c = program.add_subcommand(
      "mask", "Blocks of a mask of the library: empty (.), partial (/) or full (#), and its class");
  auto o = std::make_shared<MaskOptions>();
  std::vector<std::string> names;
  for (const MaskEntry& e : mask_entries()) names.push_back(e.name);
  c->add_option("NAME", o->name, "Name of the mask")->check(one_of(names));
  const auto positive = [&](const char* flag, int& value, const char* what) {
    c->add_option(flag, value, what)->check(CLI::Range(1, 1 << 22))->capture_default_str();
  };
  positive("--q", o->lengths.q, "Queries");
  positive("--kv", o->lengths.kv, "Keys");
  positive("--bm", o->bm, "Queries of a block");
  positive("--bn", o->bn, "Keys of a block");
  std::string defaults;
  for (const MaskEntry& e : mask_entries())
    if (!e.numbers.empty())
      defaults += fmt::format("\n  {:<24}{}", e.name, fmt::join(e.numbers, ","));
  c->footer(
      "Masks with numbers, in the order of the parameters in tegula/kernels/masks.h, and their\n"
      "defaults:" +
      defaults);
  c->add_option("--numbers", o->numbers,
                "Numbers of the mask, in the order of its function's parameters")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::Range(1, 1 << 22));
  positive("--heads", o->heads.heads, "Heads, by which attention chooses its tiles");
  c->add_option("--dim", o->heads.dim,
                "Head dim, by which attention chooses its tiles: a multiple of 8")
      ->check(CLI::Range(8, 256))
      ->capture_default_str();
  c->add_flag(
      "--work", o->work,
      "Print a table of what attention computes under masks of the classes I and T instead");
  c->add_flag(
      "--order", o->order,
      fmt::format("Print a table of how evenly {} programs share their tiles, by a model, instead",
                  host_profile().num_sms));
  c->add_option("--svg", o->svg, "Write the picture to this SVG file")->check(named(".svg"));
  c->add_option("--png", o->png, "Write the picture to this PNG file")->check(named(".png"));
  c->callback([o, &exit_code] { exit_code = draw_mask(*o); });
}

}  // namespace tegula::tools
