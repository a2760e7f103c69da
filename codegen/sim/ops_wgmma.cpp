// wgmma: issue, commit, wait. Each warp computes its 16 rows; the operands in shared memory are
// read at a random time between issue and wait.
#include <fmt/format.h>

#include <algorithm>

#include "codegen/sim/cta.h"
#include "codegen/sim/matrix.h"
#include "tegula/error.h"

namespace tegula::sim {
namespace {

using ir::kMmaStepBytes;
constexpr std::uint32_t kCoreRowBytes = 16;  // row of a core matrix

/// One wgmma op of one warp, with everything that its execution needs.
struct Work {
  const Instr* instr = nullptr;
  const MatrixElem *a_elem = nullptr, *b_elem = nullptr;
  bool a_in_registers = false, trans_a = false, trans_b = false, keep = false;
  int n = 0, steps = 1, row_tiles = 1, first_row = 0;
  DType acc_type = DType::f32;
  Descriptor a, b;
  std::vector<Cell> a_regs;
  std::vector<LaneMask> a_poison;
};

/// Calls `f(shared address, row or k, chunk)` for the 16-byte chunks of an operand at one k step.
/// The tensor core reads the CTA's own memory, independently of where its addresses begin.
template <class F>
void for_chunks(const SharedMemory& memory, const Descriptor& d, bool mn_major, int first_row,
                int rows, int elem_bytes, const F& f) {
  if (!mn_major) {
    for (int r = first_row; r < first_row + rows; ++r)
      for (std::uint32_t c = 0; c < kMmaStepBytes / kCoreRowBytes; ++c)
        f(memory.window() + d.k_major(static_cast<std::uint32_t>(r), c), r, static_cast<int>(c));
    return;
  }
  const int per_chunk = static_cast<int>(kCoreRowBytes) / elem_bytes;
  for (int k = 0; k < kMmaStepBytes / elem_bytes; ++k)
    for (int c = first_row / per_chunk; c < (first_row + rows) / per_chunk; ++c)
      f(memory.window() + d.mn_major(static_cast<std::uint32_t>(k), static_cast<std::uint32_t>(c)),
        k, c);
}

void read_shared_operand(Cta& cta, const Descriptor& d, bool mn_major, int first_row, int rows,
                         const MatrixElem& elem, Operand& out) {
  const int per_chunk = static_cast<int>(kCoreRowBytes) / elem.bytes;
  out.reset(rows, kMmaStepBytes / elem.bytes);
  double values[kCoreRowBytes];
  for_chunks(cta.shared, d, mn_major, first_row, rows, elem.bytes,
             [&](std::uint32_t address, int outer, int chunk) {
               const bool inside = cta.shared.contains(address, kCoreRowBytes);
               const bool valid = inside && cta.shared.all_valid(address, kCoreRowBytes);
               if (inside) elem.decode(cta.shared.at(address), per_chunk, values);
               for (int e = 0; e < per_chunk; ++e) {
                 const int row = mn_major ? chunk * per_chunk + e - first_row : outer - first_row;
                 const int k = mn_major ? outer : chunk * per_chunk + e;
                 out.at(row, k) = inside ? values[e] : 0;
                 const bool bad =
                     !valid && !(inside && cta.shared.all_valid(
                                               address + static_cast<std::uint32_t>(e * elem.bytes),
                                               static_cast<std::uint32_t>(elem.bytes)));
                 if (bad) out.poison[static_cast<std::size_t>(row)] = 1;
               }
             });
}

/// Bytes from A's first 64 rows to the rows of tile `m`.
std::int64_t row_advance(const Work& k, int m) {
  const auto rows = k.instr->op->attrs.ints(AttrName::rows_a);
  return rows.empty() ? 0 : rows[static_cast<std::size_t>(m)];
}

void execute(Cta& cta, const Work& k, Accumulator& acc) {
  const auto step_a = k.instr->op->attrs.ints(AttrName::step_a),
             step_b = k.instr->op->attrs.ints(AttrName::step_b);
  Operand a, b;
  const std::size_t registers = acc.poison.size() / static_cast<std::size_t>(k.row_tiles);
  for (int s = 0; s < k.steps; ++s) {
    const auto n = static_cast<std::size_t>(s);
    read_shared_operand(cta, k.b.advanced(n < step_b.size() ? step_b[n] : 0), k.trans_b, 0, k.n,
                        *k.b_elem, b);
    for (int m = 0; m < k.row_tiles; ++m) {
      if (k.a_in_registers)
        read_a_fragment(k.a_regs.data() + n * 4 * kLanes, k.a_poison.data() + n * 4, 4, *k.a_elem,
                        a);
      else
        read_shared_operand(cta,
                            k.a.advanced(row_advance(k, m) + (n < step_a.size() ? step_a[n] : 0)),
                            k.trans_a, k.first_row, 16, *k.a_elem, a);
      const bool had_poison =
          std::any_of(acc.poison.begin(), acc.poison.end(), [](LaneMask l) { return l != 0; });
      const std::size_t first = registers * static_cast<std::size_t>(m);
      multiply_accumulate(a, b, k.acc_type, k.keep || s > 0, acc.value.data() + first * kLanes,
                          acc.poison.data() + first);
      if (!had_poison) acc.poison_origin = k.instr->id;
    }
  }
}

/// Checks bounds and races of the shared memory that a warp's part of the wgmma reads.
void check_reads(Warp& w, const Work& k, Tick sequence) {
  const auto step_a = k.instr->op->attrs.ints(AttrName::step_a),
             step_b = k.instr->op->attrs.ints(AttrName::step_b);
  const Agent agent = w.cta.agents.wgmma(w.index / 4);
  const auto check = [&](const Descriptor& d, bool mn_major, int first_row, int rows,
                         const MatrixElem& e) {
    bool inside = true;
    for_chunks(
        w.cta.shared, d, mn_major, first_row, rows, e.bytes, [&](std::uint32_t address, int, int) {
          inside = inside && w.cta.shared_access(w, *k.instr, address, kCoreRowBytes, -1);
          if (inside)
            w.cta.engine_access(w, *k.instr, agent, sequence, true, address, kCoreRowBytes, false);
        });
  };
  for (std::size_t s = 0; s < static_cast<std::size_t>(k.steps); ++s) {
    for (int m = 0; m < k.row_tiles && !k.a_in_registers; ++m)
      check(k.a.advanced(row_advance(k, m) + (s < step_a.size() ? step_a[s] : 0)), k.trans_a,
            k.first_row, 16, *k.a_elem);
    check(k.b.advanced(s < step_b.size() ? step_b[s] : 0), k.trans_b, 0, k.n, *k.b_elem);
  }
}

std::string broken_wgmma_rule(const Warp& w, const Instr& i, const Work& k) {
  const std::int64_t shape_k = i.op->attrs.ints(AttrName::shape)[2];
  const ir::Type acc = w.cta.kernel().type(i.op->results[0]).inner();
  if (acc.count() != k.row_tiles * k.n / 2)
    return "packed f16 accumulators are not supported by the simulator";
  if (is_float(k.acc_type) == k.a_elem->integer || k.a_elem->bytes != k.b_elem->bytes)
    return fmt::format("operands {} and {} do not fit accumulators of {}",
                       i.op->attrs.s(AttrName::a_type), i.op->attrs.s(AttrName::b_type),
                       name(k.acc_type));
  if (k.a_in_registers && w.info(i.in[1]).regs != static_cast<std::uint32_t>(4 * k.steps))
    return fmt::format("{} A registers for {} steps", w.info(i.in[1]).regs, k.steps);
  if (k.n < 8 || k.n > 256 || k.n % 8 != 0)
    return fmt::format("n = {} is not a multiple of 8 up to 256", k.n);
  if (k.a_elem->integer && k.n > 32 && k.n % 16 != 0)
    return fmt::format("n = {} is not legal for 8-bit integers", k.n);
  if (shape_k * k.b_elem->bytes != kMmaStepBytes)
    return fmt::format("k = {} is not 32 bytes", shape_k);
  if ((k.trans_a || k.trans_b) && k.b_elem->bytes != 2)
    return "only 16-bit operands can be MN-major";
  if (w.index / 4 * 4 + 4 > w.cta.agents.warps)
    return "the last warpgroup has fewer than four warps";
  return "";
}

Work decode(Warp& w, const Instr& i) {
  const ir::AttrList& attrs = i.op->attrs;
  const auto shape = attrs.ints(AttrName::shape);
  Work k;
  k.instr = &i;
  k.a_elem = &matrix_elem(attrs.s(AttrName::a_type, "bf16"));
  k.b_elem = &matrix_elem(attrs.s(AttrName::b_type, "bf16"));
  k.a_in_registers = w.info(i.in[1]).elem.dtype == DType::i32;
  k.trans_a = attrs.i(AttrName::trans_a) != 0;
  k.trans_b = attrs.i(AttrName::trans_b) != 0;
  k.n = static_cast<int>(shape[1]);
  k.steps = std::max(1, static_cast<int>(attrs.ints(AttrName::step_b).size()));
  k.row_tiles = std::max(1, static_cast<int>(attrs.ints(AttrName::rows_a).size()));
  k.first_row = 16 * (w.index % 4);
  k.acc_type = w.cta.kernel().type(i.op->results[0]).inner().dtype();
  k.b = Descriptor::decode(static_cast<std::uint64_t>(w.cta.uniform(w, i, i.in[2])));
  if (!k.a_in_registers) {
    k.a = Descriptor::decode(static_cast<std::uint64_t>(w.cta.uniform(w, i, i.in[1])));
  } else {
    const std::uint32_t regs = w.info(i.in[1]).regs;
    k.a_regs.assign(w.cells(i.in[1]), w.cells(i.in[1]) + regs * kLanes);
    k.a_poison.assign(w.poison(i.in[1]), w.poison(i.in[1]) + regs);
  }
  k.keep = w.cta.uniform(w, i, i.in[3]) != 0;
  if (const std::string why = broken_wgmma_rule(w, i, k); !why.empty())
    throw InternalError("wgmma: " + why);
  return k;
}

/// Returns the accumulator of an op: the chained one in flight, or a new one with the operand's
/// registers.
std::uint32_t accumulator_of(Warp& w, const Instr& i) {
  WgmmaQueue& q = w.wgmma;
  const Slot in = i.in[0];
  const auto regs =
      static_cast<std::uint32_t>(w.cta.kernel().type(i.op->results[0]).inner().count());
  if (w.info(in).pending) {
    const auto number = static_cast<std::uint32_t>(w.cells(in)[0].i);
    if (number != 0 && q.accumulators[number]) return number;
    if (number != 0)
      w.cta.report(w, i, Detector::Accumulator, "the accumulator was already taken by a wait");
  } else if (w.written(in) > q.fenced_at) {
    w.cta.report(w, i, Detector::WgmmaFence,
                 "the accumulator was written after the last wgmma_fence");
  }
  auto acc = std::make_unique<Accumulator>();
  acc->value.assign(std::size_t{regs} * kLanes, Cell{0});
  acc->poison.assign(regs, ~LaneMask{0});
  acc->poison_origin = i.id;
  if (!w.info(in).pending) {
    std::copy_n(w.cells(in), regs * kLanes, acc->value.begin());
    std::copy_n(w.poison(in), regs, acc->poison.begin());
    if (w.has_poison(in)) acc->poison_origin = w.poison_origin(in);
  }
  if (q.accumulators.empty()) q.accumulators.emplace_back();
  q.accumulators.push_back(std::move(acc));
  const auto number = static_cast<std::uint32_t>(q.accumulators.size() - 1);
  q.in_flight.push_back(number);
  return number;
}

/// Executes the queued work up to a sequence number.
void flush(Accumulator& acc, std::uint32_t sequence) {
  for (; !acc.queued.empty() && acc.queued.front().first <= sequence; acc.queued.pop_front())
    acc.queued.front().second();
}

/// A wgmma is complete for all four warps at once: after one of them has waited for it, its
/// operands may be overwritten.
void complete(Warp& w, std::uint32_t sequence) {
  for (int n = w.index / 4 * 4; n < w.index / 4 * 4 + 4; ++n) {
    WgmmaQueue& q = w.cta.warp(n).wgmma;
    for (const std::uint32_t number : q.in_flight) flush(*q.accumulators[number], sequence);
  }
}

/// Joins the four warps' issues of one wgmma and compares them.
void join_issue(Warp& w, const Instr& i, std::uint32_t sequence) {
  auto& issues = w.cta.warpgroups[static_cast<std::size_t>(w.index / 4)].issues;
  if (issues.size() <= sequence) issues.resize(sequence + 1);
  WgmmaIssue& issue = issues[sequence];
  const auto b = static_cast<std::uint64_t>(w.cells(i.in[2])[0].i);
  const auto a = w.info(i.in[1]).elem.dtype == DType::i32
                     ? 0
                     : static_cast<std::uint64_t>(w.cells(i.in[1])[0].i);
  if (issue.warps == 0) {
    issue.op = i.id;
    issue.a = a;
    issue.b = b;
  } else if (issue.op != i.id || issue.a != a || issue.b != b) {
    w.cta.report(w, i, Detector::WgmmaOperand,
                 "the warps of a warpgroup issue different wgmmas or descriptors", -1, 0, issue.op);
  }
  ++issue.warps;
}

}  // namespace

Step sim_WgmmaFence(Warp& w, const Instr& i) {
  w.wgmma.fenced_at = w.steps;
  w.wgmma.needs_fence = false;
  for (std::size_t n = 0; n < i.out.size(); ++n) {
    w.copy(i.out[n], i.in[n], ~LaneMask{0});
    w.set_written(i.out[n], 0);
  }
  return Step::Next;
}

Step sim_Wgmma(Warp& w, const Instr& i) {
  WgmmaQueue& q = w.wgmma;
  for (const std::size_t n : {1u, 2u, 3u})
    if (n != 1 || w.info(i.in[1]).elem.dtype != DType::i32)
      w.cta.must_be_defined(w, i, i.in[n], "an operand");
  const Work k = decode(w, i);
  if (q.needs_fence)
    w.cta.report(w, i, Detector::WgmmaFence,
                 "no wgmma_fence since the kernel began or since accumulators were read");
  if (k.a_in_registers && w.written(i.in[1]) > q.fenced_at)
    w.cta.report(w, i, Detector::WgmmaFence,
                 "the A registers were written after the last wgmma_fence");
  const std::uint32_t number = accumulator_of(w, i);
  const std::uint32_t sequence = ++q.issued;
  join_issue(w, i, sequence);
  check_reads(w, k, sequence);
  if (k.a_in_registers) {
    w.set_a_fragment(i.in[1], sequence);
    q.a_reads.push_back({sequence, i.id});
  }
  Accumulator& acc = *q.accumulators[number];
  acc.last = sequence;
  acc.group = q.open_group;
  acc.op = i.id;
  w.cta.launch.counters.wgmma_steps += k.steps * k.row_tiles;
  Cta& cta = w.cta;
  acc.queued.emplace_back(sequence, [&cta, &acc, k] { execute(cta, k, acc); });
  if (cta.random(2) == 0) flush(acc, sequence);
  std::fill_n(w.cells(i.out[0]), kLanes, Cell{static_cast<std::int64_t>(number)});
  return Step::Next;
}

Step sim_WgmmaCommit(Warp& w, const Instr&) {
  w.wgmma.group_end.push_back(w.wgmma.issued);
  ++w.wgmma.open_group;
  return Step::Next;
}

namespace {

void give_back(Warp& w, const Instr& i, std::size_t n, std::uint32_t retired_group) {
  WgmmaQueue& q = w.wgmma;
  const Slot in = i.in[n], out = i.out[n];
  const auto number = static_cast<std::uint32_t>(w.cells(in)[0].i);
  const bool exists = number != 0 && q.accumulators[number];
  if (w.info(out).pending) {
    w.copy(out, in, ~LaneMask{0});
    return;
  }
  if (!exists) {  // poison in, poison out
    std::fill_n(w.poison(out), w.info(out).regs, ~LaneMask{0});
    w.wrote_poison(out, i.id);
    return;
  }
  Accumulator& acc = *q.accumulators[number];
  flush(acc, acc.last);
  std::copy(acc.value.begin(), acc.value.end(), w.cells(out));
  std::copy(acc.poison.begin(), acc.poison.end(), w.poison(out));
  ir::OpId origin = acc.poison_origin;
  if (acc.group > retired_group) {
    w.cta.report(w, i, Detector::Accumulator,
                 acc.group >= q.open_group
                     ? "the accumulator is used, but its wgmma was never committed"
                     : "the accumulator is used while its wgmma group is in flight",
                 -1, 0, acc.op);
    std::fill_n(w.poison(out), w.info(out).regs, ~LaneMask{0});
    origin = acc.op;
  }
  w.wrote_poison(out, origin);
  std::erase(q.in_flight, number);
  q.accumulators[number].reset();
  q.needs_fence = true;
}

void check_kept(Warp& w, const Instr& i, std::uint32_t retired) {
  WgmmaQueue& q = w.wgmma;
  for (const std::uint32_t number : q.in_flight) {
    bool passed = false;
    for (std::size_t n = 0; n < i.out.size(); ++n)
      passed |= w.info(i.in[n]).pending && w.cells(i.in[n])[0].i == number;
    if (!passed)
      w.cta.report(w, i, Detector::Accumulator,
                   "an accumulator in flight is not passed through the wait", -1, 0,
                   q.accumulators[number]->op);
  }
  while (!q.a_reads.empty() && q.a_reads.front().first <= retired) {
    const auto [sequence, op] = q.a_reads.front();
    q.a_reads.pop_front();
    bool kept = false;
    for (const Slot s : i.in) kept |= !w.info(s).pending && w.a_fragment_of(s) >= sequence;
    if (!kept)
      w.cta.report(w, i, Detector::AFragment,
                   "the A registers of a wgmma retired here are not kept alive until this wait", -1,
                   0, op);
  }
}

}  // namespace

namespace {

std::string describe_issue(Warp& w) {
  return fmt::format("the other warps of its warpgroup to issue a wgmma ({} of 4 have)",
                     w.waiting.subject);
}

}  // namespace

Step sim_WgmmaWait(Warp& w, const Instr& i) {
  WgmmaQueue& q = w.wgmma;
  const std::int64_t committed = std::int64_t{q.open_group} - 1;
  const auto group = static_cast<std::uint32_t>(
      std::max<std::int64_t>(0, committed - i.op->attrs.i(AttrName::count)));
  const std::uint32_t retired = q.group_end[group];
  const auto& issues = w.cta.warpgroups[static_cast<std::size_t>(w.index / 4)].issues;
  for (std::uint32_t s = q.retired + 1; s <= retired; ++s) {
    if (issues[s].warps >= 4) continue;
    w.waiting = {describe_issue, i.id, issues[s].warps};
    return Step::Blocked;
  }
  if (retired > q.retired) complete(w, retired);
  q.retired = std::max(q.retired, retired);
  w.known.generic.raise(w.cta.agents.wgmma(w.index / 4), retired);
  check_kept(w, i, retired);
  for (std::size_t n = 0; n < i.out.size(); ++n) give_back(w, i, n, group);
  return Step::Next;
}

}  // namespace tegula::sim
