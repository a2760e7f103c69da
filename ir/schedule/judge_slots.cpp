// Rules C5, C6, P1 and P2: writers and readers of a slot agree on its layout, and stores, reads and
// refills are ordered.
#include <fmt/format.h>

#include <algorithm>

#include "ir/matrix_type.h"
#include "ir/schedule/judging.h"

namespace tegula::ir {
namespace {

/// A wgmma operand that is read from a slot.
struct WgmmaReader {
  Label dot;
  const MatrixType* type;
  bool is_k_major;  ///< the payload's last dimension, which is contiguous, is k
};

class Slots {
 public:
  explicit Slots(Judging& j) : j_(j) {}

  void run() {
    for (const Channel& c : j_.s.channels) {
      const bool is_stored = c.kind == ChannelKind::Smem;
      for (Label l : c.payload) {
        if (is_stored) stored(c, l);
        if (c.kind == ChannelKind::Tma || c.kind == ChannelKind::CpAsync) released(c, l);
      }
      if (is_stored)
        for (const Token& t : j_.s.tokens) store_within_token(c, t);
    }
  }

 private:
  // ---- layouts
  /// Returns the wgmma operands that read the payload from the channel.
  std::vector<WgmmaReader> readers_of(const Channel& c, Label payload) const {
    std::vector<WgmmaReader> readers;
    for (const DotForm& d : j_.s.dots) {
      const OpId op = j_.op_of(d.dot);
      const MatrixType* type = matrix_type(j_.k, j_.k[op]);
      if (d.engine != Engine::Wgmma || !type) continue;
      for (std::size_t i : {0U, 1U})
        if (j_.operand(op, i).shared == &c)
          if (const auto turned = turns(op, i, payload))
            readers.push_back({d.dot, type, (*turned ? 0U : 1U) == (i == 0 ? 1U : 0U)});
    }
    return readers;
  }

  /// Returns true if a dot's operand is the transpose of the payload, false if it is the payload
  /// itself, or nothing if it is made from another node.
  std::optional<bool> turns(OpId dot, std::size_t i, Label payload) const {
    bool turned = false;
    for (OpId maker = j_.k[j_.k[dot].operands[i]].def; maker;
         maker = j_.k[j_.k[maker].operands[0]].def) {
      if (j_.g.label_of(maker) == payload) return turned;
      if (!j_.k[maker].is(Opcode::Permute, Opcode::ConvertLayout)) break;
      if (j_.k[maker].opcode == Opcode::Permute) turned = !turned;
    }
    return {};
  }

  void stored(const Channel& c, Label l) {
    const std::vector<WgmmaReader> readers = readers_of(c, l);
    for (const WgmmaReader& r : readers)
      if (!r.type->any_major() && r.is_k_major != readers.front().is_k_major)
        return different(c, readers.front().dot, r.dot);
    for (const WgmmaReader& r : readers) {
      const Type tile = j_.tile_of(*j_.g.find(l));
      const bool is_swizzled =
          tile.rank() == 2 && tile.shape()[1] * size_bytes(tile.dtype()) % kSwizzleBytes == 0;
      if (is_swizzled && (r.is_k_major || r.type->any_major())) continue;
      j_.refuse(Rule::C5, {l, r.dot}, "{} cannot be stored so that {} reads it: {}", l, r.dot,
                is_swizzled ? "k is not contiguous" : "its rows have no swizzle");
    }
  }

  void different(const Channel& c, Label one, Label other) {
    j_.refuse(Rule::C6, {one, other}, "{} and {} need different layouts of {}", one, other, c.name);
  }

  // ---- order
  /// Checks that no tile is both stored and read within a token: all warpgroups must store before
  /// one of them reads, but a token admits one warpgroup at a time.
  void store_within_token(const Channel& c, const Token& t) {
    if (j_.warpgroups(t.role) < 2) return;
    for (Label l : c.payload) {
      const std::size_t writer = *j_.g.find(l);
      if (!is_within(t, writer)) continue;
      for (const Edge& e : j_.reads_of(writer)) {
        if (e.distance != 0 || !is_within(t, e.to)) continue;
        return j_.refuse(Rule::P1, {l, j_.label(e.to)},
                         "{}: {} stores {} and {} reads it within token {}: no barrier of its "
                         "warpgroups can be between them",
                         c.name, j_.role_name(t.role), l, j_.label(e.to), t.name);
      }
    }
  }

  bool is_within(const Token& t, std::size_t node) const {
    const auto& place = j_.place(node);
    if (!place || place->role != t.role) return false;
    const std::size_t first = *j_.g.find(t.first), last = *j_.g.find(t.last);
    if (j_.g[first].kind == NodeKind::Loop) {
      const OpId owner = j_.k[j_.g[node].region].owner;
      const auto loop = owner ? j_.g.find(owner) : std::nullopt;
      return loop && *loop >= first && *loop <= last;
    }
    return j_.g[first].region == j_.g[node].region && place->order >= j_.place(first)->order &&
           place->order <= j_.place(last)->order;
  }

  /// Checks that every reader of a slot is placed in a step, because the readers release the slot.
  void released(const Channel& c, Label l) {
    const std::size_t load = *j_.g.find(l);
    if (!j_.place(load)) return;
    for (const Edge& e : j_.reads_of(load)) {
      if (j_.g[e.to].region == j_.g[load].region && !j_.place(e.to))
        j_.refuse(Rule::P2, {j_.label(e.to), l},
                  "{}: {} reads {} in no step: no role releases the slot before it is "
                  "filled again",
                  c.name, j_.label(e.to), l);
    }
  }

  Judging& j_;
};

}  // namespace

void judge_slots(Judging& j) { Slots(j).run(); }

}  // namespace tegula::ir
