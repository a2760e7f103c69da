// ldmatrix and stmatrix; see matrix_access.h.
#include "ir/layout/matrix_access.h"

#include <map>
#include <optional>
#include <string>
#include <tuple>

namespace tegula::ir {
namespace {

constexpr const char* kNotAligned = "rows are not aligned to 16 bytes";
constexpr const char* kNotARow = "the lanes do not cover rows of 16 bytes";

bool is_row_aligned(std::uint32_t flip, std::int64_t add) {
  return flip % kMatrixRowBytes == 0 && add % kMatrixRowBytes == 0;
}

/// One 32-bit register: the part of its matrix, and its element registers.
struct Word {
  int slab;
  RegisterOffset part;
  std::vector<int> registers;
};

RegisterOffset operator+(const RegisterOffset& a, const RegisterOffset& b) {
  return {a.flip ^ b.flip, a.add + b.add};
}
RegisterOffset difference(const RegisterOffset& a, const RegisterOffset& b) {
  return {a.flip ^ b.flip, a.add - b.add};
}

/// Finds words by slab and part.
class WordIndex {
 public:
  explicit WordIndex(const std::vector<Word>& words) {
    for (std::size_t i = 0; i < words.size(); ++i)
      index_.try_emplace(std::tuple(words[i].slab, words[i].part.flip, words[i].part.add), i);
  }
  std::optional<std::size_t> find(int slab, const RegisterOffset& part) const {
    const auto it = index_.find(std::tuple(slab, part.flip, part.add));
    if (it == index_.end()) return std::nullopt;
    return it->second;
  }

 private:
  std::map<std::tuple<int, std::uint32_t, std::int64_t>, std::size_t> index_;
};

/// Pairs words that differ by `step`; each pair becomes one word with the registers of both.
std::optional<std::vector<Word>> paired(const std::vector<Word>& words,
                                        const RegisterOffset& step) {
  const WordIndex index(words);
  std::vector<bool> used(words.size());
  std::vector<Word> out;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (used[i]) continue;
    const auto j = index.find(words[i].slab, words[i].part + step);
    if (!j || used[*j] || *j == i) return std::nullopt;
    used[i] = used[*j] = true;
    out.push_back(words[i]);
    out.back().registers.insert(out.back().registers.end(), words[*j].registers.begin(),
                                words[*j].registers.end());
  }
  return out;
}

/// Returns the first step from word 0 that pairs all words.
std::optional<RegisterOffset> pairing_step(std::vector<Word>& words) {
  for (std::size_t i = 1; i < words.size(); ++i) {
    if (words[i].slab != words[0].slab) continue;
    const RegisterOffset step = difference(words[i].part, words[0].part);
    if (auto pairs = paired(words, step)) {
      words = std::move(*pairs);
      return step;
    }
  }
  return std::nullopt;
}

class MatrixPlanner {
 public:
  MatrixPlanner(const SharedLayout& shared, const SharedFn& fn, bool transposed)
      : shared_(shared), fn_(fn), transposed_(transposed) {}

  Result<MatrixPlan> run() {
    using LayoutRefusal = Result<MatrixPlan>;
    const bool ok = transposed_ ? transposed_words() : straight_words();
    if (!ok) return LayoutRefusal::refused("a register does not hold consecutive bytes of a row");
    for (const Word& w : words_)
      if (!is_row_aligned(w.part.flip, w.part.add)) return LayoutRefusal::refused(kNotAligned);
    for (std::size_t s = 0; s < fn_.slabs.size(); ++s)
      if (const std::string reason = add_slab(fn_.slabs[s]); !reason.empty())
        return LayoutRefusal::refused(reason);
    for (int matrix_bit = 0; matrix_bit < 2; ++matrix_bit)
      if (const auto step = pairing_step(words_)) {
        for (ThreadOffset& rows : plan_.rows)
          rows.bits.push_back({HwDim::Lane, 3 + matrix_bit, step->flip, step->add});
        plan_.matrices *= 2;
      } else {
        break;
      }
    plan_.transposed = transposed_;
    for (Word& w : words_) plan_.accesses.push_back({w.slab, w.part, std::move(w.registers)});
    return plan_;
  }

 private:
  bool straight_words() {
    const auto vectors = shared_vectors(fn_, shared_, kWordBytes);
    if (!vectors) return false;
    for (const Vector& v : *vectors) {
      if (static_cast<int>(v.registers.size()) * shared_.element_bytes() != kWordBytes)
        return false;
      const auto& first = fn_.registers[static_cast<std::size_t>(v.registers[0])];
      words_.push_back({first.slab, first.part, v.registers});
    }
    return true;
  }

  bool transposed_words() {
    if (shared_.element_bytes() != 2) return false;
    for (std::size_t r = 0; r < fn_.registers.size(); ++r)
      words_.push_back({fn_.registers[r].slab, fn_.registers[r].part, {static_cast<int>(r)}});
    const auto step = pairing_step(words_);
    if (!step || !is_row_aligned(step->flip, step->add)) return false;
    row_step_ = *step;
    return true;
  }

  /// Lane bits within a row become byte offsets; the others, renumbered, become the row number.
  std::string add_slab(const ThreadOffset& slab) {
    ThreadOffset rows;
    const int first_in_row = transposed_ ? 2 : 0, in_row = transposed_ ? 3 : 2;
    std::uint32_t next_byte = transposed_ ? 2 : kWordBytes;
    int found = 0;
    if (transposed_) rows.bits.push_back({HwDim::Lane, 0, row_step_.flip, row_step_.add});
    for (const ThreadBit& b : slab.bits) {
      const bool is_in_row =
          b.in == HwDim::Lane && b.bit >= first_in_row && b.bit < first_in_row + in_row;
      if (is_in_row) {
        if (b.flip != next_byte || b.add != 0) return kNotARow;
        next_byte *= 2;
        ++found;
        continue;
      }
      if (!is_row_aligned(b.flip, b.add)) return kNotAligned;
      ThreadBit row = b;
      if (b.in == HwDim::Lane) row.bit += transposed_ ? 1 : -2;
      rows.bits.push_back(row);
    }
    for (const ThreadDigit& d : slab.digits)
      if (d.stride % kMatrixRowBytes != 0) return kNotAligned;
    rows.digits = slab.digits;
    plan_.rows.push_back(std::move(rows));
    return found == in_row ? "" : kNotARow;
  }

  const SharedLayout& shared_;
  const SharedFn& fn_;
  bool transposed_;
  RegisterOffset row_step_;
  std::vector<Word> words_;
  MatrixPlan plan_;
};

}  // namespace

std::int64_t MatrixPlan::row_address(const Access& access, const HardwareCoord& thread) const {
  return rows[static_cast<std::size_t>(access.slab)](thread, access.base);
}

Result<MatrixPlan> matrix_plan(const SharedLayout& shared, const LinearLayout& dist,
                               bool transposed) {
  const auto fn = shared_fn(shared, dist);
  if (!fn) return Result<MatrixPlan>::refused(fn.reason());
  return MatrixPlanner(shared, *fn, transposed).run();
}

Result<MatrixPlan> ldmatrix_plan(const SharedLayout& shared, const LinearLayout& dist) {
  auto straight = matrix_plan(shared, dist, false);
  return straight ? straight : matrix_plan(shared, dist, true);
}

}  // namespace tegula::ir
