#include "ir/schedule/carried_out.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>

#include "ir/layout/conversion.h"
#include "ir/layout/shared_layout.h"
#include "ir/matrix_type.h"
#include "ir/schedule/graph.h"
#include "tegula/int_math.h"

namespace tegula::ir {
namespace {

/// The first pass that pipelines: in front of it the graph of a kernel is that of its author.
constexpr std::string_view kFirstPipelining = "make_persistent";

/// Staging buffers of TMA stores: how many at most, and their alignment (codegen/lower).
constexpr std::int64_t kMaxStagingBuffers = 4, kStagingAlignment = 1024;

/// A copy into a ring, as the passes left it.
struct Copy {
  OpId op;
  Value channel;  ///< mbarriers of a TMA load; of cp.async the loop's first ring
  Label load;
  std::int64_t slots = 1;
  bool is_multicast = false;
};

/// Reads a Schedule off a kernel whose nodes carried their labels through the passes.
class Reader {
 public:
  Reader(Kernel& k, const Plan& plan)
      : k_(k), plan_(plan), graph_(k), has_pairs_(any_op(k, k.body(), [&](OpId op) {
          return k[op].attrs.i(AttrName::balanced_pairs) == 1;
        })) {
    for (std::size_t i = 0; i < graph_.nodes().size(); ++i) {
      const Node& node = graph_[i];
      // Copies that passes make of an op have its label, too.
      for (OpId op : node.ops) k_[op].attrs.set(AttrName::label, node.label.str());
      if (node.kind == NodeKind::Dot) remember_dot(node);
    }
  }

  /// Call it once the passes have run, which have expanded these loops.
  Schedule read(std::vector<LoopSchedule> expanded) {
    expanded_ = std::move(expanded);
    s_.target = k_.info.target;
    collect();
    roles();
    tiles();
    channels();
    stored_tiles();
    for (const Node& node : graph_.nodes())
      if (node.kind == NodeKind::Loop) loop(node);
    for (const Node& node : graph_.nodes())
      if (node.kind == NodeKind::Dot) dot(node);
    pingpong_token();
    stores();
    return std::move(s_);
  }

 private:
  /// A dot as it was before the passes.
  struct DotBefore {
    bool is_tensor_core = false;
    Label computed_a;  ///< node that makes operand A in the dot's own region, or none
  };

  void remember_dot(const Node& node) {
    const OpId op = node.ops.front();
    DotBefore before;
    before.is_tensor_core = matrix_type(k_, k_[op]) != nullptr;
    const OperandSource a = source_of(k_, op, 0);
    const OpId def = k_[k_[op].operands[0]].def;
    if (a.kind == OperandSource::Kind::Computed && def)
      if (const auto maker = graph_.find(def)) before.computed_a = graph_[*maker].label;
    dots_before_[node.label] = before;
  }

  void collect() {
    std::map<OpId, Value> first_ring;
    walk(k_, k_.body(), [&](OpId op) {
      const OpData& d = k_[op];
      const std::string_view label = d.attrs.s(AttrName::label);
      if (d.is(Opcode::DotAsync)) mmas_[Label(label)].push_back(op);
      if (!d.is(Opcode::CopyTma, Opcode::CopyAsync)) return;
      const bool is_tma = d.opcode == Opcode::CopyTma;
      const std::size_t view = is_tma ? 3 : 2;
      const auto rank = static_cast<std::size_t>(k_.type(d.operands[view]).rank());
      Copy copy{op, is_tma ? d.operands[2] : d.operands[0], Label(label),
                k_.type(d.operands[0]).shape()[0], is_tma && d.operands.size() > view + 1 + rank};
      // A loop's loads by cp.async are one group of copies.
      if (!is_tma)
        copy.channel = first_ring.try_emplace(loop_around(label), copy.channel).first->second;
      copies_.push_back(copy);
    });
  }

  /// The loop in which a load stood in front of the passes.
  OpId loop_around(std::string_view load) const {
    const auto node = graph_.find(Label(load));
    return node ? k_[graph_[*node].region].owner : OpId();
  }

  bool is_copied(Label load) const {
    return std::ranges::find(copies_, load, &Copy::load) != copies_.end();
  }

  void roles() {
    const bool has_tma = std::ranges::any_of(
        copies_, [&](const Copy& c) { return k_[c.op].opcode == Opcode::CopyTma; });
    if (plan_.producer_warps > 0 && has_tma) {
      const int kept =
          plan_.consumer_registers != 0 ? plan_.producer_registers(*k_.info.target) : 0;
      s_.roles.push_back({"producer", plan_.producer_warps, 1, kept});
    }
    const int registers = s_.roles.empty() ? 0 : plan_.consumer_registers;
    consumer_ = static_cast<std::uint8_t>(s_.roles.size());
    s_.roles.push_back({"consumer", plan_.num_warps, plan_.groups(), registers});
  }

  void tiles() {
    Tiles& t = s_.tiles;
    t.cluster = k_.info.cluster;
    t.ctas = plan_.min_ctas_per_sm;
    if (!k_.info.persistent) return;
    const bool counter =
        any_op(k_, k_.body(), [&](OpId op) { return k_[op].opcode == Opcode::FetchTile; });
    t.order = counter      ? TileOrder::Counter
              : has_pairs_ ? TileOrder::Balanced
                           : TileOrder::Serpentine;
  }

  void channels() {
    std::vector<Value> done;
    for (const Copy& copy : copies_) {
      if (std::ranges::find(done, copy.channel) != done.end()) continue;
      done.push_back(copy.channel);
      Channel c;
      c.name = Name(fmt::format("c{}", s_.channels.size()));
      c.kind = k_[copy.op].opcode == Opcode::CopyTma ? ChannelKind::Tma : ChannelKind::CpAsync;
      c.slots = static_cast<int>(copy.slots);
      for (const Copy& other : copies_) {
        if (other.channel != copy.channel) continue;
        if (std::ranges::find(c.payload, other.load) == c.payload.end())
          c.payload.push_back(other.load);
        c.multicast |= other.is_multicast;
      }
      s_.channels.push_back(std::move(c));
    }
  }

  /// Tiles that threads store for the MMAs of all warpgroups.
  void stored_tiles() {
    walk(k_, k_.body(), [&](OpId op) {
      const OpData& d = k_[op];
      if (d.opcode != Opcode::SmemStore) return;
      const OpId maker = k_[d.operands[1]].def;
      const std::string_view label = maker ? k_[maker].attrs.s(AttrName::label) : "";
      if (!label.empty()) add_stored(Label(label), k_.type(d.operands[0]).shape()[0]);
    });
  }
  void add_stored(Label payload, std::int64_t slots) {
    Channel c;
    c.name = Name(fmt::format("c{}", s_.channels.size()));
    c.kind = ChannelKind::Smem;
    c.slots = static_cast<int>(slots);
    c.payload = {payload};
    const auto has_it = [&](const Channel& other) { return other.payload == c.payload; };
    if (std::ranges::none_of(s_.channels, has_it)) s_.channels.push_back(std::move(c));
  }

  /// A conversion of a scheduled loop that warps make through shared memory.
  void conversion(const Node& node) {
    const OpId op = node.ops.front();
    if (node.kind != NodeKind::Convert || k_[op].erased) return;
    const auto to = k_.type(k_[op].results[0]), from = k_.type(k_[op].operands[0]);
    if (!from.layout() || !to.layout()) return;
    const auto plan = plan_conversion(*from.layout(), *to.layout(), size_bytes(from.dtype()));
    if (plan && plan->kind == ConversionKind::Shared) add_stored(node.label, 1);
  }

  // ---- loops
  /// The ops of a loop's steady state and of its branches, numbered.
  using Places = std::unordered_map<OpId, std::int16_t>;

  void loop(const Node& node) {
    const auto expanded = std::ranges::find(expanded_, node.label, &LoopSchedule::loop);
    const bool is_expanded = expanded != expanded_.end();
    const std::vector<std::size_t> nodes = graph_.nodes_of(k_[node.ops.front()].regions.back());
    const OpId now = is_expanded ? loop_of(node.label) : node.ops.front();
    const RegionId body = k_[now].regions.back();
    const auto is_pipelined = [&](std::size_t i) {
      return graph_[i].kind == NodeKind::Load && is_copied(graph_[i].label);
    };
    if (std::ranges::none_of(nodes, is_pipelined)) return;
    Places places;
    std::int16_t next = 0;
    for (OpId op : k_.ops(body)) {
      places[op] = next++;
      for (RegionId inner : k_[op].regions)
        for (OpId copy : k_.ops(inner)) places[copy] = next++;
    }
    steps_ = {};
    steps_.loop = node.label;
    const Label late = is_expanded ? late_dot(*expanded) : Label();
    in_flight_ = is_expanded && std::ranges::any_of(expanded->steps,
                                                    [](const Step& s) { return s.in_flight > 0; })
                     ? 1
                     : 0;
    int lead = 0;  // iterations that a role which loads for itself is ahead of its dots
    for (std::size_t i : nodes)
      if (is_pipelined(i) && is_own(graph_[i].label))
        lead = std::max(lead, lead_of(graph_[i].label));
    for (std::size_t i : nodes) {
      if (!is_expanded || is_pipelined(i)) step(graph_[i], places, body, late, lead);
      if (!is_expanded) conversion(graph_[i]);
    }
    is_expanded ? add_expanded(*expanded, lead) : in_order_of_needs();
    if (late) {
      register_channel(late);
      s_.tiles.overlap |= is_issued_before(now, late);
    }
    token(body);
    s_.loops.push_back(std::move(steps_));
  }

  /// The steps of the consumers are those that the loop was expanded from.
  void add_expanded(const LoopSchedule& loop, int lead) {
    std::vector<Step> steps = loop.steps;
    std::erase_if(steps, [&](const Step& step) { return is_copied(step.op); });
    int first = std::numeric_limits<int>::max();
    for (const Step& step : steps) first = std::min<int>(first, step.stage);
    for (Step& step : steps) {
      step.role = consumer_;
      step.stage = static_cast<std::int8_t>(step.stage - first + lead);
    }
    std::ranges::stable_sort(steps, {}, &Step::order);
    // TMA fills a slot that dots in flight have read behind the wait that retires them.
    const auto is_in_front = [&](const Step& copy) {
      return in_flight_ == 0 || copy.role != consumer_ || is_copied_by_threads(copy.op);
    };
    const auto behind = std::ranges::stable_partition(steps_.steps, is_in_front).begin();
    steps_.steps.insert(behind, steps.begin(), steps.end());
    std::int16_t next = 0;
    for (Step& step : steps_.steps) step.order = next++;
  }

  /// Ops of two nodes may stand between each other in the text: a node comes behind all that it
  /// needs in the same iteration of the steady state, else as its last op stands.
  void in_order_of_needs() {
    std::vector<Step> left = std::move(steps_.steps);
    std::ranges::stable_sort(left, {}, &Step::order);
    steps_.steps.clear();
    const auto is_needed_by = [&](const Step& u, const Step& v) {
      const std::size_t from = *graph_.find(u.op), to = *graph_.find(v.op);
      return u.role == v.role && from != to &&
             std::ranges::any_of(graph_.edges(), [&](const Edge& e) {
               return e.from == from && e.to == to && u.stage - e.distance == v.stage;
             });
    };
    while (!left.empty()) {
      auto next = std::ranges::find_if(left, [&](const Step& v) {
        return std::ranges::none_of(left, [&](const Step& u) { return is_needed_by(u, v); });
      });
      if (next == left.end()) next = left.begin();  // judge says what is wrong
      next->order = static_cast<std::int16_t>(steps_.steps.size());
      steps_.steps.push_back(*next);
      left.erase(next);
    }
  }

  /// The loop that has this label now.
  OpId loop_of(Label label) const {
    OpId found;
    walk(k_, k_.body(), [&](OpId op) {
      if (k_[op].opcode == Opcode::For && k_[op].attrs.s(AttrName::label) == label.str())
        found = op;
    });
    return found;
  }

  /// The first dot that runs later than others of its iteration; or none.
  Label late_dot(const LoopSchedule& loop) const {
    const auto is_dot = [&](const Step& step) { return dots_before_.contains(step.op); };
    int first = std::numeric_limits<int>::max();
    for (const Step& step : loop.steps)
      if (is_dot(step)) first = std::min<int>(first, step.stage);
    for (const Step& step : loop.steps)
      if (is_dot(step) && step.stage > first) return step.op;
    return {};
  }

  int slots_of(Label load) const {
    return static_cast<int>(std::ranges::find(copies_, load, &Copy::load)->slots);
  }

  /// The consumers load it: all, where there is no producer, and else what they copy by cp.async.
  bool is_own(Label load) const { return consumer_ == 0 || is_copied_by_threads(load); }
  bool is_copied_by_threads(Label load) const {
    return k_[std::ranges::find(copies_, load, &Copy::load)->op].opcode == Opcode::CopyAsync;
  }
  /// Iterations by which such a load is ahead: a slot that dots in flight read is no place for it.
  int lead_of(Label load) const {
    return slots_of(load) - 1 - (is_copied_by_threads(load) ? in_flight_ : 0);
  }

  void step(const Node& node, const Places& places, RegionId body, Label late, int lead) {
    Step step;
    step.op = node.label;
    step.role = consumer_;
    step.stage = static_cast<std::int8_t>(lead);
    if (node.kind == NodeKind::Load && is_copied(node.label)) {
      step.order = copy_place(node.label, places);
      // Behind the slots in flight, and one more where the reader is late.
      const int lag = feeds(node, late) ? 1 : 0;
      const bool own = is_own(node.label);
      if (!own) step.role = 0;
      step.stage = static_cast<std::int8_t>(own ? lead - (lead_of(node.label) - lag) : 0);
    } else if (node.kind == NodeKind::Dot) {
      const OpId mma = steady_mma(node.label, body);
      step.order = place_of_dot(node, mma, places, body);
      if (mma) step.in_flight = in_flight(mma);
    } else {
      step.order = -1;
      for (OpId op : node.ops)
        if (const auto at = places.find(op); at != places.end())
          step.order = std::max(step.order, at->second);
      if (step.order < 0) return;  // it was folded into its users
    }
    steps_.steps.push_back(step);
  }

  bool feeds(const Node& load, Label dot) const {
    const auto to = graph_.find(dot), from = graph_.find(load.label);
    return to && std::ranges::any_of(graph_.edges(),
                                     [&](const Edge& e) { return e.from == *from && e.to == *to; });
  }

  /// The copy stands in the steady state, under a condition.
  std::int16_t copy_place(Label load, const Places& places) const {
    for (const Copy& copy : copies_)
      if (const auto at = places.find(copy.op); copy.load == load && at != places.end())
        return at->second;
    return 0;
  }

  OpId steady_mma(Label dot, RegionId body) const {
    const auto mmas = mmas_.find(dot);
    if (mmas == mmas_.end()) return {};
    for (OpId op : mmas->second)
      if (k_[op].parent == body) return op;
    return {};
  }

  std::int16_t place_of_dot(const Node& node, OpId mma, const Places& places, RegionId body) const {
    if (mma) return places.at(mma);
    for (OpId op : k_.ops(body))
      if (k_[op].opcode == Opcode::Dot && k_[op].attrs.s(AttrName::label) == node.label.str())
        return places.at(op);
    return 0;
  }

  /// 1 where the first wait for the MMA leaves later ones in flight.
  std::int8_t in_flight(OpId mma) const {
    const Value pending = k_[mma].results[0];
    for (OpId op : k_.ops(k_[mma].parent))
      if (k_[op].opcode == Opcode::DotWait &&
          std::ranges::find(k_[op].operands, pending) != k_[op].operands.end())
        return k_[op].attrs.i(AttrName::count) > 0 ? 1 : 0;
    return 0;
  }

  /// Whether the late dot stands in front of its loop, too: as the last one of the tile before.
  bool is_issued_before(OpId loop, Label dot) const {
    for (OpId op = k_[loop].prev; op; op = k_[op].prev)
      if (k_[op].opcode == Opcode::DotAsync && k_[op].attrs.s(AttrName::label) == dot.str())
        return true;
    return false;
  }

  /// The fragments that a late dot reads are carried in registers.
  void register_channel(Label dot) {
    const Label maker = dots_before_.at(dot).computed_a;
    if (!maker) return;
    Channel c;
    c.name = Name(fmt::format("c{}", s_.channels.size()));
    c.kind = ChannelKind::Register;
    c.payload = {maker};
    s_.channels.push_back(std::move(c));
  }

  /// Warpgroups issue the dots between order_wait and order_arrive one after another.
  void token(RegionId body) {
    Token t;
    bool is_inside = false;
    for (OpId op : k_.ops(body)) {
      if (k_[op].opcode == Opcode::OrderWait) is_inside = true;
      if (k_[op].opcode == Opcode::OrderArrive) break;
      if (!is_inside || k_[op].opcode != Opcode::DotAsync) continue;
      const Label dot(k_[op].attrs.s(AttrName::label));
      if (!t.first) t.first = dot;
      t.last = dot;
    }
    if (!t.first) return;
    t.name = "mma";
    t.role = consumer_;
    s_.tokens.push_back(t);
  }

  void pingpong_token() {
    if (!plan_.pingpong || s_.loops.empty()) return;
    s_.tokens.push_back({"mma", consumer_, s_.loops.front().loop, s_.loops.back().loop});
  }

  void dot(const Node& node) {
    const bool is_wgmma = mmas_.contains(node.label);
    const Engine engine = is_wgmma                                     ? Engine::Wgmma
                          : dots_before_.at(node.label).is_tensor_core ? Engine::Mma
                                                                       : Engine::Fma;
    s_.dots.push_back({node.label, engine, plan_.swap_ab, Split::Rows});
  }

  // ---- stores by TMA
  /// Stores that overwrite share a channel, stores that combine with memory another one.
  void stores() {
    stores(ChannelKind::Store);
    stores(ChannelKind::Reduce);
  }

  void stores(ChannelKind kind) {
    Channel c;
    std::int64_t bytes = 0, count = 0;
    walk(k_, k_.body(), [&](OpId op) {
      const OpData& d = k_[op];
      if (d.opcode != Opcode::StoreView || d.attrs.i(AttrName::tma) != 1) return;
      if (d.attrs.has(AttrName::kind) != (kind == ChannelKind::Reduce)) return;
      const Label store(d.attrs.s(AttrName::label));
      const auto node = graph_.find(store);
      if (!node) return;
      const Type tile = k_.type(d.operands[1]);
      ++count;
      bytes = std::max(bytes, round_up(tile.count() * size_bytes(tile.dtype()), kStagingAlignment));
      if (std::ranges::find(c.payload, store) == c.payload.end()) c.payload.push_back(store);
      if (plan_.epilogue_tile_n == tile.shape()[1]) c.columns = plan_.epilogue_tile_n;
    });
    if (count == 0) return;
    const std::int64_t room =
        (k_.info.target->shared_bytes_per_cta - round_up(k_.info.smem_bytes, kStagingAlignment)) /
        (bytes * plan_.groups());
    c.name = Name(fmt::format("c{}", s_.channels.size()));
    c.kind = kind;
    c.slots =
        static_cast<int>(std::clamp<std::int64_t>(room, 1, std::min(count, kMaxStagingBuffers)));
    s_.channels.push_back(std::move(c));
  }

  Kernel& k_;
  const Plan& plan_;
  Graph graph_;
  std::map<Label, DotBefore> dots_before_;
  std::map<Label, std::vector<OpId>> mmas_;
  std::vector<Copy> copies_;
  std::uint8_t consumer_ = 0;  ///< index of the consumers' role; 0: there is no producer
  LoopSchedule steps_;
  int in_flight_ = 0;                   ///< of the dots of the loop that is read
  std::vector<LoopSchedule> expanded_;  ///< the steps of loops that were expanded
  bool has_pairs_;                      ///< tiles are dealt in balanced pairs
  Schedule s_;
};

}  // namespace

CarriedOut schedule_carried_out(const Kernel& tile, PassContext& context) {
  const auto passes = ir_passes();
  const auto cut = static_cast<std::size_t>(
      std::ranges::find(passes, kFirstPipelining, &Pass::name) - passes.begin());
  CarriedOut out{clone(tile), {}};
  PipelineOptions options;
  options.verify = false;
  run_pipeline(out.machine, passes.first(cut), context, options);
  Kernel rest = clone(out.machine);
  const Plan plan = context.plan.value_or(Plan{});
  Reader reader(rest, plan);
  const std::size_t before = context.expanded.size();
  for (const Pass& pass : passes.subspan(cut))
    if (pass.name != "check_channels") run_pipeline(rest, {&pass, 1}, context, options);
  out.schedule = reader.read(
      {context.expanded.begin() + static_cast<std::ptrdiff_t>(before), context.expanded.end()});
  return out;
}

}  // namespace tegula::ir
