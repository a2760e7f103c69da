#include "tools/mask_entries.h"

#include <algorithm>
#include <numeric>
#include <random>

#include "tegula/error.h"
#include "tegula/tegula.h"

namespace tegula::tools {
namespace {

using namespace masks;
using Numbers = MaskNumbers;

Tensor table(const std::vector<i32>& values) { return Tensor::from(values, Device::cpu()); }

/// Positions one behind the other in documents that begin at `starts`.
struct Documents {
  std::vector<i32> starts, ids;

  Documents(std::vector<i32> first, int positions) : starts(std::move(first)) {
    for (std::size_t d = 0; d < starts.size(); ++d) {
      const i32 end = d + 1 < starts.size() ? starts[d + 1] : positions;
      ids.insert(ids.end(), static_cast<std::size_t>(end - starts[d]), static_cast<i32>(d));
    }
  }
  Mask causal() const { return packed_causal(table(ids), table(starts)); }
};

/// Of lengths n, n / 2, n / 4, n, ...
Documents falling(int n, int positions) {
  std::vector<i32> starts;
  for (int at = 0, d = 0; at < positions; at += std::max(1, n >> (d++ % 3))) starts.push_back(at);
  return {starts, positions};
}

/// Cut where bench/attention_suites.py cuts: at the first of torch.randperm(positions - 1) with
/// seed 1, which swaps entry i for one of those from i on.
Documents cut_at_random(int count, int positions) {
  std::vector<i32> cuts(static_cast<std::size_t>(std::max(positions - 1, 0)));
  std::iota(cuts.begin(), cuts.end(), 1);
  const std::size_t chosen = std::min(cuts.size(), static_cast<std::size_t>(count - 1));
  std::mt19937 random(1);
  for (std::size_t i = 0; i < chosen; ++i)
    std::swap(cuts[i], cuts[i + random() % (cuts.size() - i)]);
  cuts.resize(chosen);
  cuts.push_back(0);
  std::ranges::sort(cuts);
  return {cuts, positions};
}

/// Positions 0 and 1 and every n-th one.
Tensor global_positions(int n, int positions) {
  std::vector<i32> marks;
  for (int i = 0; i < positions; ++i) marks.push_back(i < 2 || i % n == 0);
  return table(marks);
}

int positions(const MaskLengths& l) { return std::max(l.q, l.kv); }

}  // namespace

const std::vector<MaskEntry>& mask_entries() {
  static const std::vector<MaskEntry> kEntries{
      {"full", {}, [](auto&, auto&) { return full(); }},
      {"causal", {}, [](auto&, auto&) { return causal(); }},
      {"causal_bottom_right", {}, [](auto&, auto& l) { return causal_bottom_right(l.q, l.kv); }},
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
       [](auto& n, auto& l) { return document(table(falling(n[0], positions(l)).ids)); }},
      {"causal_document",
       {384},
       [](auto& n, auto& l) {
         return and_(causal(), document(table(falling(n[0], positions(l)).ids)));
       }},
      {"packed_causal",
       {12},
       [](auto& n, auto& l) { return cut_at_random(n[0], positions(l)).causal(); }},
      {"shared_prefix",
       {256, 12},
       [](auto& n, auto& l) {
         const Documents d = cut_at_random(n[1], positions(l));
         return shared_prefix(n[0], table(d.ids), table(d.starts));
       }},
      {"global_window",
       {256, 1024},
       [](auto& n, auto& l) { return global_window(n[0], global_positions(n[1], positions(l))); }},
      {"key_padding", {900}, [](auto& n, auto&) { return key_padding(table({n[0]})); }},
      {"left_padding", {100}, [](auto& n, auto&) { return left_padding(table({n[0]})); }},
  };
  return kEntries;
}

const MaskEntry& mask_entry(const std::string& name) {
  const auto at = std::ranges::find(mask_entries(), name, &MaskEntry::name);
  if (at == mask_entries().end())
    throw CompileError(Diagnostic{"", "mask: no mask is called " + name, {}, {}, ""});
  return *at;
}

}  // namespace tegula::tools
