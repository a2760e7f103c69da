// The text form of Schedules and of edits.
#include "ir/schedule/text.h"

#include <gtest/gtest.h>

#include <random>

#include "ir/schedule/edits.h"
#include "tegula/error.h"

namespace tegula::ir::schedule_text_test {
namespace {

/// FlashAttention-3's order (docs/schedule.md).
constexpr std::string_view kAttention = R"(schedule sm_90a {
  roles    producer(warps 4, regs 24) consumer(warps 8, regs 240)
  dots     dot#0 wgmma, dot#1 wgmma
  tiles    balanced
  channel  q tma slots 1 load#0
  channel  k tma slots 2 load#1
  channel  v tma slots 2 load#2
  channel  p register slots 1 cvt#0
  token    mma consumer { dot#0 .. dot#1 }
  loop#0 {
    load#1 producer 0.0  load#2 producer 0.1  dot#0 consumer 0.0 in_flight 1
    dot#1 consumer 1.1 in_flight 1 pin  if#0 consumer 0.2  ew#1 consumer 0.3  cvt#0 consumer 0.4
    ew#2 consumer 0.5
  }
}
)";

/// Attention backward, with everything that the first one lacks.
constexpr std::string_view kBackward = R"(schedule sm_90a {
  roles    producer(warps 1) storer(warps 1) consumer(warps 4 x 2, regs 240)
  dots     dot#0 wgmma flip, dot#1 mma, dot#2 wgmma, dot#3 fma
  tiles    serpentine cluster 2 overlap ctas 2
  channel  kv tma slots 1 load#0 load#1 multicast
  channel  ds smem slots 2 cvt#1
  channel  dq reduce slots 1 store#0
  channel  out store slots 2 store#1 columns 32
  token    a consumer { loop#0 }
  loop#0 {
    dot#0 consumer -1.0  dot#1 consumer 2.1
  }
  loop#1 {
  }
}
)";

TEST(ScheduleText, CanonicalTextsComeBackAsTheyAre) {
  for (const std::string_view text : {kAttention, kBackward})
    EXPECT_EQ(print(parse_schedule(text)), text);
}

TEST(ScheduleText, ParsesFields) {
  const Schedule s = parse_schedule(kBackward);
  EXPECT_EQ(s.roles.at(2), (Role{"consumer", 4, 2, 240}));
  EXPECT_EQ(s.dots.at(0), (DotForm{"dot#0", Engine::Wgmma, true}));
  EXPECT_EQ(s.tiles, (Tiles{TileOrder::Serpentine, 2, true, 2}));
  EXPECT_TRUE(s.channels.at(0).multicast);
  EXPECT_EQ(s.channels.at(3).columns, 32);
  EXPECT_EQ(s.tokens.at(0).last, Label("loop#0"));
  EXPECT_EQ(s.loops.at(0).steps.at(0).stage, -1);
}

TEST(ScheduleText, OrdersRestartForEachRole) {
  const Schedule s = parse_schedule(
      "schedule sm_90a { roles a(warps 1) b(warps 4) tiles each  # a comment\n"
      "loop#0 { dot#0 b 0.7 load#1 a 0.9 dot#1 b 1.3 load#0 a 0.2 } }");
  EXPECT_EQ(print(s), R"(schedule sm_90a {
  roles    a(warps 1) b(warps 4)
  tiles    each
  loop#0 {
    load#0 a 0.0  load#1 a 0.1  dot#1 b 1.0  dot#0 b 0.1
  }
}
)");
}

/// Two steps in one place stay so: judge refuses them, printing does not hide them.
TEST(ScheduleText, StepsInOnePlaceStayThere) {
  const Schedule s = parse_schedule(
      "schedule sm_90a { roles a(warps 1) tiles each loop#0 { dot#0 a 0.4 dot#1 a 1.4 } }");
  EXPECT_EQ(parse_schedule(print(s)), s);
}

TEST(ScheduleText, NamesOfChannelsAndTokensAreNotHashed) {
  Schedule s = parse_schedule(kBackward), renamed = s;
  renamed.channels[0].name = "operands";
  renamed.tokens[0].name = "order";
  EXPECT_EQ(hash(s), hash(renamed));
  renamed.channels[0].slots = 2;
  EXPECT_NE(hash(s), hash(renamed));
  renamed = s;
  renamed.roles[0].name = "loader";
  EXPECT_NE(hash(s), hash(renamed));
}

std::string error_of(std::string_view text) {
  try {
    parse_schedule(text, Loc("k.cpp", 10));
  } catch (const CompileError& e) {
    return e.diagnostic().loc.file + (":" + std::to_string(e.diagnostic().loc.line)) + " " +
           e.diagnostic().message;
  }
  return "no error";
}

TEST(ScheduleText, ErrorsNameTheLineAndTheWord) {
  EXPECT_EQ(error_of("plan { }"), "k.cpp:10 schedule: expected 'schedule', found 'plan'");
  EXPECT_EQ(error_of("schedule sm_70 {"),
            "k.cpp:10 schedule: expected a target (sm_80 and sm_90a), found 'sm_70'");
  EXPECT_EQ(error_of("schedule sm_90a {\n  tiles round }"),
            "k.cpp:11 schedule: expected the order of tiles (each, serpentine, balanced, counter), "
            "found 'round'");
  EXPECT_EQ(error_of("schedule sm_90a {\n\n channel q tma slots 0 load#0 }"),
            "k.cpp:12 schedule: expected slots (a number from 1 to 64), found '0'");
  EXPECT_EQ(error_of("schedule sm_90a { channel q tma slots 2 }"),
            "k.cpp:10 schedule: expected a label of an op that uses the channel, found '}'");
  EXPECT_EQ(error_of("schedule sm_90a { roles a(warps 4) loop#0 { dot#0 b 0.0 } }"),
            "k.cpp:10 schedule: expected a role from the section roles, found 'b'");
  EXPECT_EQ(error_of("schedule sm_90a { roles a(warps 4) loop#0 { dot#0 a 0 } }"),
            "k.cpp:10 schedule: expected a place stage.order, such as 1.0, found '0'");
  EXPECT_EQ(error_of("schedule sm_90a { tiles each } more"),
            "k.cpp:10 schedule: expected the end, found 'more'");
  EXPECT_EQ(error_of("schedule sm_90a {\n tiles each"),
            "k.cpp:11 schedule: expected a section: roles, dots, tiles, channel, token or a loop's "
            "label, found the end");
}

// ---- random values ------------------------------------------------------------------------------
class RandomSchedule {
 public:
  explicit RandomSchedule(unsigned seed) : random_(seed) {}

  Schedule make() {
    Schedule s;
    s.target = below(2) == 0 ? Target("sm_80") : Target("sm_90a");
    const int roles = 1 + below(3);
    for (int i = 0; i < roles; ++i)
      s.roles.push_back({name("r", i), 1 + below(12), 1 + below(2), 8 * below(31)});
    for (int i = below(4); i-- > 0;)
      s.dots.push_back({label("dot"), pick<Engine>(3), below(2) == 1});
    s.tiles = {pick<TileOrder>(4), 1 + below(4), below(2) == 1, 1 + below(3)};
    for (int i = below(5); i-- > 0;) s.channels.push_back(channel(i));
    for (int i = below(3); i-- > 0;)
      s.tokens.push_back({name("t", i), role(roles), label("dot"), label("dot")});
    for (int i = below(3); i-- > 0;) s.loops.push_back(loop(roles, i));
    return s;
  }

 private:
  int below(int n) { return std::uniform_int_distribution(0, n - 1)(random_); }
  template <class Enum>
  Enum pick(int n) {
    return static_cast<Enum>(below(n));
  }
  Label label(const char* kind) { return Label(kind + ("#" + std::to_string(below(9)))); }
  Name name(const char* kind, int i) { return Name(kind + std::to_string(i)); }
  std::uint8_t role(int roles) { return static_cast<std::uint8_t>(below(roles)); }

  Channel channel(int i) {
    Channel c;
    c.name = name("c", i);
    c.kind = pick<ChannelKind>(6);
    c.slots = 1 + below(6);
    for (int n = 1 + below(3); n-- > 0;) c.payload.push_back(label("load"));
    c.multicast = below(2) == 1;
    c.columns = 32 * below(3);
    return c;
  }

  LoopSchedule loop(int roles, int number) {
    LoopSchedule l;
    l.loop = Label("loop#" + std::to_string(number));
    for (int n = below(8); n-- > 0;)
      l.steps.push_back({label(below(2) == 0 ? "dot" : "ew"), role(roles),
                         static_cast<std::int8_t>(below(5) - 1),
                         static_cast<std::int16_t>(below(20)), static_cast<std::int8_t>(below(3)),
                         below(4) == 0});
    return l;
  }

  std::mt19937 random_;
};

TEST(ScheduleText, RandomSchedulesComeBack) {
  for (unsigned seed = 0; seed < 3000; ++seed) {
    const Schedule s = RandomSchedule(seed).make();
    const std::string text = print(s);
    const Schedule back = parse_schedule(text);
    ASSERT_EQ(back, canonical(s)) << text;
    ASSERT_EQ(print(back), text);
    ASSERT_EQ(hash(back), hash(s));
  }
}

// ---- edits
Schedule edited(std::string_view edits) {
  const EditedSchedule p = with_edits(parse_schedule(kAttention), edits);
  EXPECT_TRUE(p.reasons.empty()) << p.reasons.front().str();
  return p.schedule;
}

TEST(ScheduleEdits, EachChangesItsField) {
  const Schedule before = parse_schedule(kAttention);
  const auto change = [&](std::string_view edit, const auto& by_hand) {
    Schedule expected = before;
    by_hand(expected);
    EXPECT_EQ(edited(edit), canonical(expected)) << edit;
    EXPECT_NE(canonical(expected), canonical(before)) << edit;
  };
  change("channel v slots 3", [](Schedule& s) { s.channels[2].slots = 3; });
  change("channel v kind cp_async", [](Schedule& s) { s.channels[2].kind = ChannelKind::CpAsync; });
  change("channel v columns 64", [](Schedule& s) { s.channels[2].columns = 64; });
  change("role consumer regs 232", [](Schedule& s) { s.roles[1].regs = 232; });
  change("role consumer warps 4 x 2", [](Schedule& s) {
    s.roles[1].warps = 4;
    s.roles[1].copies = 2;
  });
  change("dot#1 in_flight 0", [](Schedule& s) { s.loops[0].steps[3].in_flight = 0; });
  change("dot#0 pin", [](Schedule& s) { s.loops[0].steps[2].pin = true; });
  change("dots dot#1 mma flip", [](Schedule& s) { s.dots[1] = {"dot#1", Engine::Mma, true}; });
  change("tiles counter ctas 2", [](Schedule& s) { s.tiles = {TileOrder::Counter, 1, false, 2}; });
  change("token mma consumer { ew#1 }",
         [](Schedule& s) { s.tokens[0].first = s.tokens[0].last = "ew#1"; });
  change("token mufu consumer { ew#1 .. cvt#0 }",
         [](Schedule& s) { s.tokens.push_back({"mufu", 1, "ew#1", "cvt#0"}); });
  change("drop mma", [](Schedule& s) { s.tokens.clear(); });
  change("drop load#2", [](Schedule& s) { s.channels.erase(s.channels.begin() + 2); });
  change("channel o takes store#0; channel o slots 2",
         [](Schedule& s) { s.channels.push_back({"o", ChannelKind::Store, 2, {"store#0"}}); });
}

/// The step takes the place, those from there on move back.
TEST(ScheduleEdits, AStepMovesBeforeTheOneInItsPlace) {
  const Schedule s = canonical(edited("ew#2 consumer 0.2; dot#1 consumer 0.0"));
  std::vector<std::string_view> order;
  for (const Step& step : s.loops[0].steps)
    if (step.role == 1) order.push_back(step.op.str());
  EXPECT_EQ(order,
            (std::vector<std::string_view>{"dot#1", "dot#0", "ew#2", "if#0", "ew#1", "cvt#0"}));
}

TEST(ScheduleEdits, MissingNamesAreReasons) {
  const auto p = with_edits(parse_schedule(kAttention),
                            "channel x slots 2\nrole y regs 24\ndot#7 pin\ndrop z\n"
                            "dots dot#5 mma\nchannel k slots 4\ndrop load#7\n"
                            "channel k takes load#7",
                            Loc("k.cpp", 3));
  std::vector<std::string> texts;
  for (const Reason& r : p.reasons) texts.push_back(r.str());
  EXPECT_EQ(texts, (std::vector<std::string>{
                       "k.cpp:3: L2: there is no channel x", "k.cpp:4: L2: there is no role y",
                       "k.cpp:5: L1: no loop has a step dot#7", "k.cpp:6: L2: there is no token z",
                       "k.cpp:7: L1: there is no dot dot#5", "k.cpp:9: L1: no channel has load#7",
                       "k.cpp:10: L1: no channel has load#7"}));
  EXPECT_EQ(p.schedule.channels.at(1).slots, 4);
}

TEST(ScheduleEdits, OtherWordsAreErrors) {
  EXPECT_THROW(edited("channel k depth 4"), CompileError);
  EXPECT_THROW(edited("role consumer slots 4"), CompileError);
  EXPECT_THROW(edited("speed 4"), CompileError);
}

}  // namespace
}  // namespace tegula::ir::schedule_text_test
