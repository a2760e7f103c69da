#include "tools/mask_entries.h"

#include <algorithm>
#include <numeric>
#include <random>

#include "tegula/error.h"
#include "tegula/int_math.h"
#include "tegula/tegula.h"

namespace tegula::tools {
namespace {

using namespace kernels;
using namespace kernels::masks;
using Numbers = MaskScalars;

Tensor table(const std::vector<i32>& values) { return Tensor::from(values, Device::cpu()); }

/// Consecutive documents that begin at `starts`.
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

/// Returns documents of lengths n, n / 2, n / 4, n, ...
Documents falling(int n, int positions) {
  std::vector<i32> starts;
  for (int at = 0, d = 0; at < positions; at += std::max(1, n >> (d++ % 3))) starts.push_back(at);
  return {starts, positions};
}

/// Cuts at the same positions as bench/attention_suites.py: the first of torch.randperm(positions -
/// 1) with seed 1, which swaps entry i with one of the entries from i on.
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

/// Returns the positions 0, 1 and every n-th one.
Tensor global_positions(int n, int positions) {
  std::vector<i32> marks;
  for (int i = 0; i < positions; ++i) marks.push_back(i < 2 || i % n == 0);
  return table(marks);
}

int positions(const MaskLengths& l) { return std::max(l.q, l.kv); }

/// Returns value(i) for each of n positions.
Tensor each(int n, const std::function<int(int)>& value) {
  std::vector<i32> of;
  for (int i = 0; i < n; ++i) of.push_back(value(i));
  return table(of);
}

/// A quarter of the rows is causal, the following block is dense, the rest is causal again.
Mask some_slices(const MaskLengths& l) {
  return slices({{0, l.q / 4, 0, l.kv / 4, SliceMaskType::causal},
                 {l.q / 4, l.q / 2, 0, l.kv / 2, SliceMaskType::full},
                 {l.q / 2, l.q, l.kv / 2, l.kv, SliceMaskType::bi_causal}});
}

/// Each run of `text` positions is followed by an image of `image` positions.
Mask text_and_images(int text, int image, int count) {
  const int period = text + image;
  return transfusion(
      each(count, [=](int i) { return i % period < text ? i + 1 : (i / period + 1) * period; }));
}

/// Image i precedes the text that begins at i * text, and is visible to twice that many positions.
Mask images_shown(int tokens, int text, const MaskLengths& l) {
  const int images = ceil_div(l.kv, tokens);
  return shown_images(each(images, [=](int i) { return i * text; }),
                      each(images, [=](int i) { return (i + 2) * text; }), tokens);
}

/// Query q attends to the last `window` keys and the first (q / period) * first keys.
Mask window_and_first(int window, int period, int first, const MaskLengths& l) {
  return row_intervals(
      {{each(l.q, [=](int q) { return std::max(0, q - window); }),
        each(l.q, [](int q) { return q + 1; })},
       {each(l.q, [](int) { return 0; }), each(l.q, [=](int q) { return q / period * first; })}});
}

/// Causal within documents of `length` positions, in FlashMask form: keys are hidden from the rows
/// after their document.
Mask documents_by_columns(int length, const MaskLengths& l) {
  const Tensor none = each(l.kv, [](int) { return 0; });
  return and_(causal(), flash_mask(each(l.kv, [=](int kv) { return (kv / length + 1) * length; }),
                                   each(l.kv, [q = l.q](int) { return q; }), none, none));
}

/// A binary tree: node i has the parent (i - 1) / 2.
Mask binary_tree(int prefix, int nodes) {
  std::vector<int> parents;
  for (int i = 0; i < nodes; ++i) parents.push_back(i > 0 ? (i - 1) / 2 : -1);
  return tree(prefix, ancestor_bits({parents}, nodes, Device::cpu()), nodes);
}

std::vector<MaskEntry> table_entries() {
  return {
      {"within_documents",
       {384, 100},
       [](auto& n, auto& l) {
         const Documents d = falling(n[0], positions(l));
         return within_documents(table(d.ids), table(d.starts), sliding_window(n[1]));
       }},
      {"transfusion",
       {192, 128},
       [](auto& n, auto& l) { return text_and_images(n[0], n[1], positions(l)); }},
      {"latest_image",
       {64, 192},
       [](auto& n, auto& l) {
         return latest_image(each(l.q, [text = n[1]](int q) { return q / text - 1; }), n[0]);
       }},
      {"shown_images", {128, 192}, [](auto& n, auto& l) { return images_shown(n[0], n[1], l); }},
      {"row_intervals",
       {256, 128, 32},
       [](auto& n, auto& l) { return window_and_first(n[0], n[1], n[2], l); }},
      {"tree", {896, 128}, [](auto& n, auto&) { return binary_tree(n[0], n[1]); }},
      {"flash_mask", {300}, [](auto& n, auto& l) { return documents_by_columns(n[0], l); }},
  };
}

std::vector<MaskEntry> video_entries() {
  return {
      {"slices", {}, [](auto&, auto& l) { return some_slices(l); }},
      {"zigzag_causal",
       {1, 1, 4},
       [](auto& n, auto& l) {
         return zigzag(n[0], n[1], n[2], std::max(1, positions(l) / 2), causal());
       }},
      {"svg_spatial_head",
       {64, 192, 256},
       [](auto& n, auto&) { return svg_spatial_head(n[0], n[1], n[2]); }},
      {"svg_temporal_head",
       {64, 256, 32},
       [](auto& n, auto&) { return svg_temporal_head(n[0], n[1], n[2]); }},
      {"tiled_neighbourhood",
       {32, 32, 8, 8, 7},
       [](auto& n, auto&) { return tiled_neighbourhood({n[0], n[1]}, {n[2], n[3]}, n[4]); }},
      {"morton_neighbourhood",
       {32, 7},
       [](auto& n, auto&) { return morton_neighbourhood(n[0], n[1]); }},
      {"sliding_tiles",
       {32, 28, 8, 4, 3, 3, 128},
       [](auto& n, auto&) {
         return sliding_tiles(ImageSize{n[0], n[1]}, ImageSize{n[2], n[3]}, ImageSize{n[4], n[5]},
                              n[6]);
       }},
      {"sliding_tiles_of_video",
       {16, 8, 8, 4, 4, 4, 3, 2, 1},
       [](auto& n, auto&) {
         return sliding_tiles(VideoSize{n[0], n[1], n[2]}, VideoSize{n[3], n[4], n[5]},
                              VideoSize{n[6], n[7], n[8]}, 0);
       }},
  };
}

std::vector<MaskEntry> first_entries() {
  return {
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
}

}  // namespace

const std::vector<MaskEntry>& mask_entries() {
  static const std::vector<MaskEntry> kEntries = [] {
    std::vector<MaskEntry> all = first_entries();
    for (const auto& more : {table_entries(), video_entries()})
      all.insert(all.end(), more.begin(), more.end());
    return all;
  }();
  return kEntries;
}

const MaskEntry& mask_entry(const std::string& name) {
  const auto at = std::ranges::find(mask_entries(), name, &MaskEntry::name);
  if (at == mask_entries().end())
    throw CompileError(Diagnostic{"", "mask: no mask is named " + name, {}, {}, ""});
  return *at;
}

}  // namespace tegula::tools
