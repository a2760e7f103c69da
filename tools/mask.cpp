// tegula mask NAME: what the analysis makes of a mask of the library, as a picture of its blocks.
#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <functional>

#include "ir/analysis/mask_ranges.h"
#include "kernels/attention/mask_trace.h"
#include "kernels/attention/way.h"
#include "tegula/error.h"
#include "tegula/tegula.h"
#include "tools/commands.h"
#include "tools/mask_picture.h"

namespace tegula::tools {
namespace {

using ir::Coverage;
using namespace masks;

struct Options {
  std::string name, svg;
  int q = 1024, kv = 1024, bm = 128, bn = 128;
  std::vector<int> numbers;  ///< in place of the entry's own
};

using Numbers = std::vector<int>;
struct Entry {
  std::string name;
  Numbers numbers;  ///< what the mask's own numbers are unless given
  std::function<Mask(const Numbers&, const Options&)> make;
};

/// Documents of lengths n, n / 2, n / 4, n, ...
Tensor document_ids(int n, int positions) {
  std::vector<i32> ids;
  for (i32 d = 0; static_cast<int>(ids.size()) < positions; ++d)
    ids.insert(ids.end(), static_cast<std::size_t>(std::max(1, n >> (d % 3))), d);
  return Tensor::from(ids, Device::cpu());
}

const std::vector<Entry>& entries() {
  static const std::vector<Entry> kEntries{
      {"full", {}, [](auto&, auto&) { return full(); }},
      {"causal", {}, [](auto&, auto&) { return causal(); }},
      {"causal_bottom_right", {}, [](auto&, auto& o) { return causal_bottom_right(o.q, o.kv); }},
      {"sliding_window", {256}, [](auto& n, auto&) { return sliding_window(n[0]); }},
      {"window", {256, 128}, [](auto& n, auto&) { return window(n[0], n[1]); }},
      {"chunked", {384}, [](auto& n, auto&) { return chunked(n[0]); }},
      {"dilated_window", {256, 4}, [](auto& n, auto&) { return dilated_window(n[0], n[1]); }},
      {"sink_window", {4, 256}, [](auto& n, auto&) { return sink_window(n[0], n[1]); }},
      {"prefix_lm", {256}, [](auto& n, auto&) { return prefix_lm(n[0]); }},
      {"block_causal", {192}, [](auto& n, auto&) { return block_causal(n[0]); }},
      {"batchify_causal", {384}, [](auto& n, auto&) { return batchify(n[0], causal()); }},
      {"block_diffusion", {512, 128}, [](auto& n, auto&) { return block_diffusion(n[0], n[1]); }},
      {"speculative_blocks",
       {256, 128},
       [](auto& n, auto&) { return speculative_blocks(n[0], n[1]); }},
      {"neighbourhood",
       {32, 32, 7},
       [](auto& n, auto&) { return neighbourhood(n[0], n[1], n[2]); }},
      {"document",
       {384},
       [](auto& n, auto& o) { return document(document_ids(n[0], std::max(o.q, o.kv))); }},
      {"causal_document",
       {384},
       [](auto& n, auto& o) {
         return and_(causal(), document(document_ids(n[0], std::max(o.q, o.kv))));
       }},
  };
  return kEntries;
}

/// Pairs in [least, most] are seen; equal where every element was decided.
struct Density {
  std::int64_t least = 0, most = 0;
};

/// Counts what a mask lets through by cutting undecided blocks in four.
class Counter {
 public:
  Counter(ir::MaskBlocks& blocks, const ir::MaskParams& params)
      : blocks_(blocks), params_(params) {}
  void count(const ir::MaskBlock& b, Density& d) {
    const std::int64_t pairs = (b.q1 - b.q0) * (b.kv1 - b.kv0);
    if (pairs <= 0) return;
    const Coverage c = blocks_.classify(b, params_, 0);
    if (c == Coverage::Empty) return;
    if (c == Coverage::Full || pairs == 1 || --budget_ < 0) {
      d.most += pairs;
      d.least += c == Coverage::Full ? pairs : 0;
      return;
    }
    const std::int64_t q = (b.q0 + b.q1 + 1) / 2, kv = (b.kv0 + b.kv1 + 1) / 2;
    for (const auto& [q0, q1] : {std::pair{b.q0, q}, {q, b.q1}})
      for (const auto& [kv0, kv1] : {std::pair{b.kv0, kv}, {kv, b.kv1}})
        count({b.batch, b.head, q0, q1, kv0, kv1}, d);
  }

 private:
  ir::MaskBlocks& blocks_;
  const ir::MaskParams& params_;
  std::int64_t budget_ = 4'000'000;
};

char sign(Coverage c) { return c == Coverage::Empty ? '.' : c == Coverage::Full ? '#' : '/'; }

/// One row of blocks for each query tile.
std::vector<std::vector<Coverage>> grid_of(ir::MaskBlocks& blocks, const ir::MaskParams& params,
                                           const Options& o) {
  std::vector<std::vector<Coverage>> rows;
  for (int q = 0; q < o.q; q += o.bm) {
    rows.emplace_back();
    for (int kv = 0; kv < o.kv; kv += o.bn)
      rows.back().push_back(blocks.classify(
          {0, 0, q, std::min(q + o.bm, o.q), kv, std::min(kv + o.bn, o.kv)}, params));
  }
  return rows;
}

std::string ranges_text(const ir::IntervalSet& set) {
  std::string text;
  for (const ir::Interval i : set.parts()) text += fmt::format(" {}..{}", i.lo, i.hi);
  return text.empty() ? " none" : text;
}

void write(const std::string& path, const std::string& text) {
  std::ofstream out(path);
  out << text;
  if (!out) throw CompileError(Diagnostic{"", "mask: cannot write " + path, {}, {}, ""});
}

void show(const Options& o, const Mask& mask) {
  const TracedMask traced = trace_mask(mask);
  const ir::MaskClosedForm form = ir::solve_mask(traced.expr);
  const ir::MaskParams params = traced.params();
  ir::MaskBlocks blocks(traced.expr);
  ir::MaskRanges ranges(form);
  MaskPicture picture;
  const auto say = [&](const std::string& line) {
    fmt::print("{}\n", line);
    picture.caption.push_back(line);
  };
  say(fmt::format("{}: {}", o.name, traced.expr.str()));
  say(fmt::format("class {}: {}", name(form.mask_class), form.reason));
  say("attention visits " + Way({.mask = mask}).text());
  picture.rows = grid_of(blocks, params, o);
  const auto& rows = picture.rows;
  std::array<std::int64_t, 3> counts{};
  for (std::size_t y = 0; y < rows.size(); ++y) {
    std::string line;
    for (const Coverage c : rows[y]) {
      line += sign(c);
      ++counts[static_cast<std::size_t>(c)];
    }
    const int q = static_cast<int>(y) * o.bm;
    const ir::KvCover cover = ranges.cover({0, 0, q, std::min(q + o.bm, o.q), o.kv}, params);
    picture.notes.push_back(fmt::format("q {}..{} sees{}, all of it{}", q,
                                        std::min(q + o.bm, o.q) - 1, ranges_text(cover.visible),
                                        ranges_text(cover.full)));
    fmt::print("{}  {}\n", line, picture.notes.back());
  }
  Density d;
  Counter(blocks, params).count({0, 0, 0, o.q, 0, o.kv}, d);
  const double all = static_cast<double>(o.q) * o.kv, total = counts[0] + counts[1] + counts[2];
  say(fmt::format("blocks {} x {}: {} empty, {} partial, {} full; {:.2f} % of them are computed",
                  o.bm, o.bn, counts[0], counts[1], counts[2],
                  100 * (counts[1] + counts[2]) / total));
  const double least = 100 * static_cast<double>(d.least) / all,
               most = 100 * static_cast<double>(d.most) / all;
  say(fmt::format("density {:.2f} %{}", least,
                  d.least == d.most ? "" : fmt::format(" to {:.2f} %: not all was decided", most)));
  if (!o.svg.empty()) write(o.svg, svg(picture));
}

int draw(Options& o) {
  const auto entry = std::ranges::find(entries(), o.name, &Entry::name);
  Numbers numbers = entry->numbers;
  if (o.numbers.size() > numbers.size()) {
    fmt::print(stderr, "mask: {} has {} numbers, {} were given\n", o.name, numbers.size(),
               o.numbers.size());
    return 2;
  }
  std::ranges::copy(o.numbers, numbers.begin());
  show(o, entry->make(numbers, o));
  return 0;
}

}  // namespace

void add_mask(CLI::App& program, int& exit_code) {
  CLI::App* c = program.add_subcommand(
      "mask", "Blocks of a mask of the library: empty (.), partial (/) or full (#), and its class");
  auto o = std::make_shared<Options>();
  std::vector<std::string> names;
  for (const Entry& e : entries()) names.push_back(e.name);
  c->add_option("NAME", o->name, "Which")->required()->check(CLI::IsMember(names));
  const auto positive = [&](const char* flag, int& value, const char* what) {
    c->add_option(flag, value, what)->check(CLI::Range(1, 1 << 22))->capture_default_str();
  };
  positive("--q", o->q, "Queries");
  positive("--kv", o->kv, "Keys");
  positive("--bm", o->bm, "Queries of a block");
  positive("--bn", o->bn, "Keys of a block");
  c->add_option("--numbers", o->numbers, "The mask's own numbers, in the order of its function")
      ->delimiter(',')
      ->check(CLI::Range(1, 1 << 22));
  c->add_option("--svg", o->svg, "Write the picture to this file");
  c->callback([o, &exit_code] { exit_code = draw(*o); });
}

}  // namespace tegula::tools
