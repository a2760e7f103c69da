#pragma once
// The rows and columns of a block list that belong to one entry of a batch, or to one of many
// sequences.
#include <optional>

#include "tegula/block_mask.h"
#include "tegula/tegula.h"

namespace tegula {

/// cu_seqlens, if given.
struct Lengths {
  const std::optional<In<i32, 1>>&q, &kv;

  void any_number() const { q->do_not_specialize(0), kv->do_not_specialize(0); }
};

/// Lengths of one entry of a batch, or of one of many sequences, and the columns of its lists.
struct SequenceLists {
  Tile seqlen_q, seqlen_kv;
  std::optional<KvIndexWindow> columns = {};

  static SequenceLists of(const Lengths& lengths, const Tile& b, int block) {
    const auto at = [](const In<i32, 1>& begins, const Tile& i) {
      return fill_absent(begins(i), 0);
    };
    const Tile next = b + 1, kv_first = at(*lengths.kv, b),
               seqlen_kv = at(*lengths.kv, next) - kv_first, q_first = at(*lengths.q, b);
    return {at(*lengths.q, next) - q_first, seqlen_kv,
            KvIndexWindow::of_sequence(b, kv_first, seqlen_kv, block)};
  }
};

/// Number of programs that share the blocks of one of many sequences.
constexpr int kShares = 32;

}  // namespace tegula
