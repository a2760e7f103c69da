// Shadow words of global memory, and the order between programs.
#include "ir/eval/race.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <new>

#include "tegula/int_math.h"

namespace tegula::ir::interp {
namespace {

std::uint64_t load(std::uint64_t& word) {
  return std::atomic_ref(word).load(std::memory_order_seq_cst);
}

/// Returns the access in `word` if another program made it and nothing orders it before now.
std::optional<Touch> conflict(std::uint64_t& word, const ProgramClock& clock) {
  const Touch past(load(word));
  if (!past || clock.is_ordered_before_now(past)) return std::nullopt;
  return past;
}

void store(std::uint64_t& word, Touch a) {
  std::atomic_ref(word).store(a.word(), std::memory_order_seq_cst);
}

/// Stores the first access that is not ordered before now, and in `other` the last one of another
/// program.
void remember(std::uint64_t& word, std::uint64_t& other, Touch me, const ProgramClock& clock) {
  std::uint64_t first = load(word);
  if (first == 0 || clock.is_ordered_before_now(Touch(first)))
    if (std::atomic_ref(word).compare_exchange_strong(first, me.word())) return;
  if (Touch(first).program() != me.program()) store(other, me);
}

template <class Visit>
std::optional<Touch> for_each_shadow(ShadowBlock& block, const std::byte* address, std::size_t size,
                                     const Visit& visit) {
  const std::size_t first =
      (reinterpret_cast<std::uintptr_t>(address) - block.begin) / block.granule;
  const std::size_t count = std::max<std::size_t>(1, size / block.granule);
  std::optional<Touch> found;
  for (std::size_t i = first; i < first + count; ++i)
    if (auto c = visit(block.shadows[i]); c && !found) found = c;
  return found;
}

template <class... Words>
std::optional<Touch> first_conflict(const ProgramClock& clock, Words&... words) {
  std::optional<Touch> found;
  ((found = conflict(words, clock)) || ...);
  return found;
}

}  // namespace

void ShadowBlock::allocate() {
  const std::size_t count = ceil_div(end - begin, granule);
  const std::size_t bytes = std::max<std::size_t>(1, count) * sizeof(Shadow);
  void* zeros = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (zeros == MAP_FAILED) throw std::bad_alloc();
  shadows = {static_cast<Shadow*>(zeros), UnmapShadows{bytes}};
}

void UnmapShadows::operator()(Shadow* p) const { munmap(p, bytes); }

void ProgramClock::start(std::uint32_t program) {
  program_ = program;
  epoch_ = 0;
  known_.clear();
}

bool ProgramClock::is_ordered_before_now(Touch past) const {
  if (past.program() == program_) return true;
  if (known_.empty()) return false;
  const auto it = known_.find(past.program());
  return it != known_.end() && past.epoch() <= it->second;
}

std::optional<Touch> RaceDetector::read(ShadowBlock& block, const std::byte* address,
                                        std::size_t size, const ProgramClock& clock,
                                        std::uint32_t op) {
  return for_each_shadow(block, address, size, [&](Shadow& s) {
    remember(s.reader, s.other_reader, clock.access(op), clock);
    return first_conflict(clock, s.writer, s.atomic, s.other_atomic);
  });
}

std::optional<Touch> RaceDetector::write(ShadowBlock& block, const std::byte* address,
                                         std::size_t size, const ProgramClock& clock,
                                         std::uint32_t op) {
  return for_each_shadow(block, address, size, [&](Shadow& s) {
    const Touch past(std::atomic_ref(s.writer).exchange(clock.access(op).word()));
    if (past && !clock.is_ordered_before_now(past)) return std::optional(past);
    return first_conflict(clock, s.reader, s.other_reader, s.atomic, s.other_atomic);
  });
}

std::optional<Touch> RaceDetector::atomic(ShadowBlock& block, const std::byte* address,
                                          std::size_t size, const ProgramClock& clock,
                                          std::uint32_t op) {
  return for_each_shadow(block, address, size, [&](Shadow& s) {
    remember(s.atomic, s.other_atomic, clock.access(op), clock);
    return first_conflict(clock, s.writer, s.reader, s.other_reader);
  });
}

void RaceDetector::acquire(const std::byte* address, ProgramClock& clock) {
  const auto it = released_.find(address);
  if (it == released_.end()) return;
  for (const auto& [program, epoch] : it->second) {
    auto& known = clock.known_[program];
    known = std::max(known, epoch);
  }
}

void RaceDetector::release(const std::byte* address, ProgramClock& clock) {
  auto& released = released_[address];
  for (const auto& [program, epoch] : clock.known_) {
    auto& r = released[program];
    r = std::max(r, epoch);
  }
  released[clock.program_] = clock.epoch_;
  ++clock.epoch_;
}

}  // namespace tegula::ir::interp
