// The mask library, except for image masks. Each function returns the lambda that is documented in
// masks.h.
#include "tegula/kernels/masks.h"

#include "kernels/masks/mask_arguments.h"
#include "tegula/math.h"

namespace tegula::kernels::masks {

Mask and_(Mask a, Mask b) {
  return [a = std::move(a), b = std::move(b)](Tile batch, Tile h, Tile q, Tile kv) {
    return a(batch, h, q, kv) && b(batch, h, q, kv);
  };
}
Mask or_(Mask a, Mask b) {
  return [a = std::move(a), b = std::move(b)](Tile batch, Tile h, Tile q, Tile kv) {
    return a(batch, h, q, kv) || b(batch, h, q, kv);
  };
}
Mask not_(Mask a) {
  return [a = std::move(a)](Tile b, Tile h, Tile q, Tile kv) { return !a(b, h, q, kv); };
}

Mask full() {
  return [](Tile, Tile, Tile, Tile) { return Tile(true); };
}

Mask causal() {
  return [](Tile, Tile, Tile q, Tile kv) { return q >= kv; };
}

Mask causal_bottom_right(MaskScalar seqlen_q, MaskScalar seqlen_kv) {
  require_count("masks::causal_bottom_right", "seqlen_q", seqlen_q);
  require_count("masks::causal_bottom_right", "seqlen_kv", seqlen_kv);
  return
      [=](Tile, Tile, Tile q, Tile kv) { return q + (seqlen_kv.value() - seqlen_q.value()) >= kv; };
}

Mask sliding_window(MaskScalar window) {
  require_count("masks::sliding_window", "window", window);
  return [=](Tile, Tile, Tile q, Tile kv) { return q >= kv && q - kv <= window.value(); };
}

Mask window(MaskScalar left, MaskScalar right) {
  const std::optional<int> behind = left.constant(), ahead = right.constant();
  // Adds in 64 bits, as both are arbitrary ints.
  if (behind && ahead && std::int64_t{*behind} + *ahead < 0)
    fail(
        ErrorId::kernel_argument, left.loc(), {}, "masks::window", "left + right",
        std::int64_t{*behind} + *ahead,
        "0 or more: otherwise no key remains. For no limit use the length of the sequence, not -1");
  return [=](Tile, Tile, Tile q, Tile kv) {
    return q - kv <= left.value() && kv - q <= right.value();
  };
}

Mask chunked(MaskScalar size) {
  require_positive("masks::chunked", "size", size);
  return [=](Tile, Tile, Tile q, Tile kv) {
    const Tile n = size.value();
    return q >= kv && q / n == kv / n;
  };
}

Mask dilated_window(MaskScalar window, MaskScalar dilation) {
  require_count("masks::dilated_window", "window", window);
  require_positive("masks::dilated_window", "dilation", dilation);
  return [=](Tile, Tile, Tile q, Tile kv) {
    return abs(q - kv) <= window.value() && (q - kv) % dilation.value() == 0;
  };
}

Mask sink_window(MaskScalar sinks, MaskScalar window) {
  require_count("masks::sink_window", "sinks", sinks);
  require_count("masks::sink_window", "window", window);
  return [=](Tile, Tile, Tile q, Tile kv) {
    return q >= kv && (kv < sinks.value() || q - kv <= window.value());
  };
}

Mask prefix_lm(MaskScalar prefix) {
  require_count("masks::prefix_lm", "prefix", prefix);
  return [=](Tile, Tile, Tile q, Tile kv) { return kv < prefix.value() || q >= kv; };
}

Mask block_causal(MaskScalar block) {
  require_positive("masks::block_causal", "block", block);
  return [=](Tile, Tile, Tile q, Tile kv) { return q / block.value() >= kv / block.value(); };
}

Mask batchify(MaskScalar length, Mask inner) {
  require_positive("masks::batchify", "length", length);
  return [length, inner = std::move(inner)](Tile b, Tile h, Tile q, Tile kv) {
    const Tile n = length.value();
    return q / n == kv / n && inner(b, h, q % n, kv % n);
  };
}

Mask block_diffusion(MaskScalar length, MaskScalar block) {
  require_count("masks::block_diffusion", "length", length);
  require_positive("masks::block_diffusion", "block", block);
  return [=](Tile, Tile, Tile q, Tile kv) {
    const Tile s = length.value(), n = block.value();
    const Tile q_noised = q < s, kv_noised = kv < s;
    // Separate conditions per half of the queries and keys, so that each can be solved for kv.
    const Tile noised = kv_noised && q_noised && q / n == kv / n;
    const Tile before = q_noised && q / n > (kv - s) / n,
               up_to = !q_noised && (q - s) / n >= (kv - s) / n;
    return noised || (!kv_noised && (before || up_to));
  };
}

Mask speculative_blocks(MaskScalar prefix, MaskScalar block) {
  require_count("masks::speculative_blocks", "prefix", prefix);
  require_positive("masks::speculative_blocks", "block", block);
  return [=](Tile, Tile, Tile q, Tile kv) {
    const Tile p = prefix.value(), n = block.value(), after = kv - p;
    return kv < p || (q / n == after / n && after % n <= q % n);
  };
}

static Tile sees(const AttnSlice& s, const Tile& q, const Tile& kv) {
  Tile seen = q >= s.q_begin.value() && q < s.q_end.value() && kv >= s.kv_begin.value() &&
              kv < s.kv_end.value();
  if (s.kind == SliceMaskType::causal || s.kind == SliceMaskType::bi_causal)
    seen = seen && q - kv >= s.q_end.value() - s.kv_end.value();
  if (s.kind == SliceMaskType::inverse_causal || s.kind == SliceMaskType::bi_causal)
    seen = seen && q - kv <= s.q_begin.value() - s.kv_begin.value();
  return seen;
}

Mask slices(std::vector<AttnSlice> of) {
  return [of = std::move(of)](Tile, Tile, Tile q, Tile kv) {
    Tile seen(false);
    for (const AttnSlice& s : of) seen = seen || sees(s, q, kv);
    return seen;
  };
}

Mask zigzag(MaskScalar q_rank, MaskScalar kv_rank, MaskScalar ranks, MaskScalar chunk, Mask inner) {
  require_count("masks::zigzag", "q_rank", q_rank);
  require_count("masks::zigzag", "kv_rank", kv_rank);
  require_positive("masks::zigzag", "ranks", ranks);
  require_positive("masks::zigzag", "chunk", chunk);
  return [=, inner = std::move(inner)](Tile b, Tile h, Tile q, Tile kv) {
    const Tile n = chunk.value(), last = 2 * ranks.value() - 2, of_q = q_rank.value(),
               of_kv = kv_rank.value();
    const Tile key = where(kv < n, kv + of_kv * n, kv + (last - of_kv) * n);
    // Separate masks per half of the queries: positions are linear in q within each half, so that
    // conditions can be solved for kv.
    return (q < n && inner(b, h, q + of_q * n, key)) ||
           (q >= n && inner(b, h, q + (last - of_q) * n, key));
  };
}

Mask svg_spatial_head(MaskScalar prompt, MaskScalar sinks, MaskScalar width) {
  require_count("masks::svg_spatial_head", "prompt", prompt);
  require_count("masks::svg_spatial_head", "sinks", sinks);
  require_count("masks::svg_spatial_head", "width", width);
  return [=](Tile, Tile, Tile q, Tile kv) {
    return q < prompt.value() || kv < sinks.value() || abs(q - kv) < width.value();
  };
}

Mask document(Tensor ids, Loc at) {
  const detail::CallPlace here(at);
  require_table("masks::document", "ids", ids);
  return [ids = std::move(ids)](Tile, Tile, Tile q, Tile kv) {
    const auto id = view<i32, 1>(ids);
    return id(q) == id(kv);
  };
}

Mask packed_causal(Tensor ids, Tensor starts, Loc at) {
  const detail::CallPlace here(at);
  require_table("masks::packed_causal", "ids", ids);
  require_table("masks::packed_causal", "starts", starts);
  return [ids = std::move(ids), starts = std::move(starts)](Tile, Tile, Tile q, Tile kv) {
    return kv >= view<i32, 1>(starts)(view<i32, 1>(ids)(q)) && q >= kv;
  };
}

Mask within_documents(Tensor ids, Tensor starts, Mask inner, Loc at) {
  const detail::CallPlace here(at);
  require_table("masks::within_documents", "ids", ids);
  require_table("masks::within_documents", "starts", starts);
  return [ids = std::move(ids), starts = std::move(starts), inner = std::move(inner)](
             Tile b, Tile h, Tile q, Tile kv) {
    const auto id = view<i32, 1>(ids), start = view<i32, 1>(starts);
    return id(q) == id(kv) && inner(b, h, q - start(id(q)), kv - start(id(kv)));
  };
}

Mask shared_prefix(MaskScalar length, Tensor ids, Tensor starts, Loc at) {
  const detail::CallPlace here(at);
  require_count("masks::shared_prefix", "length", length);
  require_table("masks::shared_prefix", "ids", ids);
  require_table("masks::shared_prefix", "starts", starts);
  const Mask own = packed_causal(std::move(ids), std::move(starts), at);
  return [length, own](Tile b, Tile h, Tile q, Tile kv) {
    return own(b, h, q, kv) || (q >= length.value() && kv < length.value());
  };
}

Mask left_padding(Tensor padding, Loc at) {
  const detail::CallPlace here(at);
  require_table("masks::left_padding", "padding", padding);
  return [padding = std::move(padding)](Tile b, Tile, Tile, Tile kv) {
    return kv >= view<i32, 1>(padding)(b);
  };
}

Mask global_window(MaskScalar window, Tensor is_global, Loc at) {
  const detail::CallPlace here(at);
  require_count("masks::global_window", "window", window);
  require_table("masks::global_window", "is_global", is_global);
  return [window, is_global = std::move(is_global)](Tile, Tile, Tile q, Tile kv) {
    const auto marked = view<i32, 1>(is_global);
    return abs(q - kv) <= window.value() || marked(q) != 0 || marked(kv) != 0;
  };
}

Mask transfusion(Tensor span_ends, Loc at) {
  const detail::CallPlace here(at);
  require_table("masks::transfusion", "span_ends", span_ends);
  return [span_ends = std::move(span_ends)](Tile, Tile, Tile q, Tile kv) {
    return kv < view<i32, 1>(span_ends)(q);
  };
}

Mask latest_image(Tensor images, MaskScalar image_tokens, Loc at) {
  const detail::CallPlace here(at);
  require_table("masks::latest_image", "images", images);
  require_positive("masks::latest_image", "image_tokens", image_tokens);
  return [images = std::move(images), image_tokens](Tile, Tile, Tile q, Tile kv) {
    return kv / image_tokens.value() == view<i32, 1>(images)(q);
  };
}

Mask shown_images(Tensor starts, Tensor ends, MaskScalar image_tokens, Loc at) {
  const detail::CallPlace here(at);
  require_table("masks::shown_images", "starts", starts);
  require_table("masks::shown_images", "ends", ends);
  require_positive("masks::shown_images", "image_tokens", image_tokens);
  return [starts = std::move(starts), ends = std::move(ends), image_tokens](Tile, Tile, Tile q,
                                                                            Tile kv) {
    const Tile image = kv / image_tokens.value();
    return q >= view<i32, 1>(starts)(image) && q < view<i32, 1>(ends)(image);
  };
}

Mask row_intervals(std::vector<RowInterval> intervals, Loc at) {
  const detail::CallPlace here(at);
  for (const RowInterval& of : intervals) {
    require_table("masks::row_intervals", "begins", of.begins);
    require_table("masks::row_intervals", "ends", of.ends);
  }
  return [intervals = std::move(intervals)](Tile, Tile, Tile q, Tile kv) {
    Tile seen(false);
    for (const RowInterval& of : intervals)
      seen = seen || (kv >= view<i32, 1>(of.begins)(q) && kv < view<i32, 1>(of.ends)(q));
    return seen;
  };
}

Mask flash_mask(Tensor lower_starts, Tensor lower_ends, Tensor upper_starts, Tensor upper_ends,
                Loc at) {
  const detail::CallPlace here(at);
  require_table("masks::flash_mask", "lower_starts", lower_starts);
  require_table("masks::flash_mask", "lower_ends", lower_ends);
  require_table("masks::flash_mask", "upper_starts", upper_starts);
  require_table("masks::flash_mask", "upper_ends", upper_ends);
  return [ls = std::move(lower_starts), le = std::move(lower_ends), us = std::move(upper_starts),
          ue = std::move(upper_ends)](Tile, Tile, Tile q, Tile kv) {
    const auto is_outside = [&](const Tensor& starts, const Tensor& ends) {
      return q < view<i32, 1>(starts)(kv) || q >= view<i32, 1>(ends)(kv);
    };
    return is_outside(ls, le) && is_outside(us, ue);
  };
}

Mask shifted(MaskScalar q_offset, MaskScalar kv_offset, Mask inner) {
  return [q_offset, kv_offset, inner = std::move(inner)](Tile b, Tile h, Tile q, Tile kv) {
    return inner(b, h, q + q_offset.value(), kv + kv_offset.value());
  };
}

Mask svg_temporal_head(MaskScalar prompt, MaskScalar frame, MaskScalar width) {
  require_count("masks::svg_temporal_head", "prompt", prompt);
  require_positive("masks::svg_temporal_head", "frame", frame);
  require_count("masks::svg_temporal_head", "width", width);
  return [=](Tile, Tile, Tile q, Tile kv) {
    const Tile p = prompt.value(), n = frame.value();
    return q < p || kv < p || abs((q - p) % n - (kv - p) % n) < width.value();
  };
}

Mask key_padding(Tensor lengths, Loc at) {
  const detail::CallPlace here(at);
  require_table("masks::key_padding", "lengths", lengths);
  return [lengths = std::move(lengths)](Tile b, Tile, Tile, Tile kv) {
    return kv < view<i32, 1>(lengths)(b);
  };
}

}  // namespace tegula::kernels::masks
