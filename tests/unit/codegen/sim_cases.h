#pragma once
// Kernels with one fault each, and the sound kernels one edit away: for the simulator's detectors,
// and for the check that looks at the same kernels before they run.
#include "tests/unit/codegen/sim_global_kernels.h"

namespace tegula::sim {

/// `sound` becomes faulty by replacing `from` with `to`.
struct Case {
  Detector kind;
  std::string name;
  std::string sound, from, to;
  Grid grid = {1, 1, 1};
};

// ---- base kernels -------------------------------------------------------------------------------

/// Every thread writes a word and reads the word of thread `t ^ distance`.
inline std::string exchange(int distance) {
  return kernel(64, "  %d = const [value = " + std::to_string(4 * distance) + R"(] : i32
  st_shared %mine, %t [width = 1]
  bar_sync %zero [count = 64]
  %rel = xor %t4, %d
  %their = add %base, %rel
  %v = ld_shared %their [width = 1] : i32
  st_global %out, %v [width = 1]
)");
}

/// Fills 8192 bytes (64 threads, 128 bytes each) and stores them with TMA; then fills them again.
inline const std::string kTmaStore = kernel(64, R"(
  %c128 = const [value = 128] : i32
  %row = mul %t, %c128
  %row_at = add %base, %row
  %c16 = const [value = 16] : i32
  %end = add %row_at, %c128
  for %row_at, %end, %c16 { (%a: i32)
    %v = concat %t, %t, %t, %t
    st_shared %a, %v [width = 4]
  }
  fence_proxy_async
  bar_sync %zero [count = 64]
  if %first {
    tma_store %o, %base, %zero, %zero
    tma_commit
    tma_wait [count = 0, read = 1]
  } {
  }
  bar_sync %one [count = 64]
  st_shared %mine, %t [width = 1]
)");

/// One TMA load of 8192 bytes, read by both warps.
inline const std::string kTmaLoad = kernel(64, R"(
  if %first {
    mbar_init %bar [count = 1]
    fence_mbar_init
  } {
  }
  bar_sync %zero [count = 64]
  if %first {
    mbar_expect_tx %bar [bytes = 8192]
    tma_load %m, %base, %bar, %zero, %zero
  } {
  }
  bar_sync %one [count = 64]
  mbar_wait %bar, %zero
  %v = ld_shared %mine [width = 1] : i32
  st_global %out, %v [width = 1]
)");

/// The second warp reads words, one lane says so, the first warp overwrites them.
inline const std::string kRelease = kernel(64, R"(
  %lane4 = mul %lane, %four
  %at = add %base, %lane4
  %leads = cmp %lane, %zero [pred = "eq"]
  %reads = cmp %warp, %one [pred = "eq"]
  if %first {
    mbar_init %bar [count = 1]
  } {
  }
  st_shared %mine, %t [width = 1]
  bar_sync %zero [count = 64]
  if %reads {
    %v = ld_shared %at [width = 1] : i32
    warp_sync
    mbar_arrive %bar, %leads
    st_global %out, %v [width = 1]
  } {
    mbar_wait %bar, %zero
    st_shared %mine, %zero [width = 1]
  }
)");

/// The lanes of the first warp write two bytes each, the second reads the first two.
inline const std::string kHalves = kernel(64, R"(
  %lane2 = mul %lane, %two
  %at = add %base, %lane2
  %half = cast %t : f16
  %writes = cmp %warp, %zero [pred = "eq"]
  if %writes {
    st_shared %at, %half [width = 1]
  } {
  }
  bar_sync %zero [count = 64]
  if %writes {
  } {
    %v = ld_shared %base [width = 1] : f16
    %n = cast %v : i32
    st_global %out, %n [width = 1]
  }
)");

inline const std::string kCpAsync = kernel(64, R"(
  cp_async %mine, %out [bytes = 4]
  cp_async_commit
  cp_async_wait [count = 0]
  bar_sync %zero [count = 64]
  %c128 = const [value = 128] : i32
  %rel = xor %t4, %c128
  %their = add %base, %rel
  %v = ld_shared %their [width = 1] : i32
  bar_sync %zero [count = 64]
  st_global %out, %v [width = 1]
)");

/// D = A B^T of 64 x 64 x 64 from a TMA-loaded tile; A from shared memory, or its first k step from
/// registers.
inline std::string wgmma(bool a_in_registers) {
  std::string body = R"(
  if %first {
    mbar_init %bar [count = 1]
    fence_mbar_init
  } {
  }
  bar_sync %zero [count = 128]
  if %first {
    mbar_expect_tx %bar [bytes = 8192]
    tma_load %m, %base, %bar, %zero, %zero
  } {
  }
  mbar_wait %bar, %zero
  %false = const [value = 0] : i1
  %delta = mul %warp, %zero
  %b_at = add %base, %delta
  %desc = smem_desc %b_at [lbo = 16, sbo = 1024, swizzle = 128]
  %none = poison : v<32xf32>
)";
  body += a_in_registers ? R"(
  %ones = const [value = 1065369472] : v<4xi32>
  %frag0 = add %ones, %zero
  %frag = wgmma_fence %frag0
  %p = wgmma %none, %frag, %desc, %false [shape = [64, 64, 16], a_type = "bf16", b_type = "bf16", step_a = [0], step_b = [0]]
  wgmma_commit
  %acc = wgmma_wait %p, %frag [count = 0] : v<32xf32>
)"
                         : R"(
  wgmma_fence
  %p = wgmma %none, %desc, %desc, %false [shape = [64, 64, 16], a_type = "bf16", b_type = "bf16", step_a = [0, 32, 64, 96], step_b = [0, 32, 64, 96]]
  wgmma_commit
  %acc = wgmma_wait %p [count = 0] : v<32xf32>
)";
  body += R"(
  %first_acc = regs %acc [indices = [0]]
  %bits = bitcast %first_acc : i32
  st_global %out, %bits [width = 1]
)";
  return kernel(128, body);
}

/// The same MMA of ones that the threads write themselves.
inline const std::string kWgmmaOwnData = kernel(128, R"(
  %c64 = const [value = 64] : i32
  %row = mul %t, %c64
  %at = add %base, %row
  %end = add %at, %c64
  %c16 = const [value = 16] : i32
  %ones = const [value = 1065369472] : v<4xi32>
  for %at, %end, %c16 { (%a: i32)
    st_shared %a, %ones [width = 4]
  }
  fence_proxy_async
  bar_sync %zero [count = 128]
  %false = const [value = 0] : i1
  %desc = smem_desc %base [lbo = 16, sbo = 1024, swizzle = 128]
  %none = poison : v<32xf32>
  wgmma_fence
  %p = wgmma %none, %desc, %desc, %false [shape = [64, 64, 16], a_type = "bf16", b_type = "bf16", step_a = [0, 32, 64, 96], step_b = [0, 32, 64, 96]]
  wgmma_commit
  %acc = wgmma_wait %p [count = 0] : v<32xf32>
  st_shared %mine, %t [width = 1]
  %first_acc = regs %acc [indices = [0]]
  %bits = bitcast %first_acc : i32
  st_global %out, %bits [width = 1]
)");

/// The same in a cluster, whose second CTA's addresses begin with its rank.
inline const std::string kClusterWgmma = replaced(
    replaced(replaced(kWgmmaOwnData, "smem(33792)", "smem(33792) cluster(2)"),
             "%desc = smem_desc %base",
             "%field = const [value = 262143] : i32\n  %low = and %base, %field\n  %desc = "
             "smem_desc %low"),
    "%bits = bitcast %first_acc : i32\n  st_global %out,",
    "%bits = bitcast %first_acc : i32\n  %cta = ctaid [axis = 0]\n  %c128 = const [value = 128] : "
    "i32\n  %skip = mul %cta, %c128\n  %mine_out = addptr %out, %skip\n  st_global %mine_out,");

/// Each of the two CTAs of a cluster reads what the other wrote.
inline const std::string kCluster = replaced(kernel(64, R"(
  st_shared %mine, %t [width = 1]
  cluster_arrive ; written
  cluster_wait
  %rank = cta_rank
  %other = xor %rank, %one
  %there = map_shared %base, %other
  %at = add %there, %t4
  %v = ld_cluster %at [width = 1] : i32
  cluster_arrive ; read
  cluster_wait
  %cta = ctaid [axis = 0]
  %c64 = const [value = 64] : i32
  %skip = mul %cta, %c64
  %mine_out = addptr %out, %skip
  st_global %mine_out, %v [width = 1]
)"),
                                             "smem(33792)", "smem(33792) cluster(2)");
inline const std::string kWritten = "  cluster_arrive ; written\n  cluster_wait\n";
inline const std::string kRead = "  cluster_arrive ; read\n  cluster_wait\n";
inline const Grid kTwoCtas = {2, 1, 1};

/// Each of the two CTAs loads half of the operands that both read, to both, twice: the second time
/// when the warps of both have told it that they have read.
inline const std::string kMulticast = replaced(kernel(64, R"(
  %rank = cta_rank
  %eight = const [value = 8] : i32
  %read = add %bar, %eight
  if %first {
    mbar_init %bar [count = 1]
    mbar_init %read [count = 4]
    fence_mbar_init
  } {
  }
  cluster_arrive ; ready
  cluster_wait
  %c8k = const [value = 8192] : i32
  %half = mul %rank, %c8k
  %to = add %base, %half
  if %first {
    mbar_expect_tx %bar [bytes = 16384]
    tma_load %m, %to, %bar, %zero, %zero [cluster_ctas = 2]
  } {
  }
  mbar_wait %bar, %zero
  %v = ld_shared %mine [width = 1] : i32
  %mine_high = add %mine, %c8k
  %w = ld_shared %mine_high [width = 1] : i32
  %of_lane = and %lane, %one
  %two_lanes = cmp %lane, %two [pred = "lt"]
  %there = map_shared %read, %of_lane
  warp_sync
  mbar_arrive %there, %two_lanes [scope = "cluster"]
  if %first {
    mbar_wait %read, %zero
    mbar_expect_tx %bar [bytes = 16384]
    tma_load %m, %to, %bar, %zero, %zero [cluster_ctas = 2]
  } {
  }
  mbar_wait %bar, %one
  %x = ld_shared %mine_high [width = 1] : i32
  mbar_arrive %there, %two_lanes [scope = "cluster"]
  cluster_arrive ; done
  cluster_wait
)"),
                                               "smem(33792)", "smem(33792) cluster(2)");

/// Two warps on barrier 3: one only arrives.
inline const std::string kNamed = kernel(64, R"(
  %three = const [value = 3] : i32
  %is0 = cmp %warp, %zero [pred = "eq"]
  if %is0 {
    bar_arrive %three [count = 64]
  } {
    bar_sync %three [count = 64]
  }
)");

/// Even words are written by the threads, two lanes a word at a time read through shuffles under a
/// condition.
inline const std::string kShuffle = kernel(32, R"(
  %c = cmp %lane, %zero [pred = "ge"]
  if %c {
    %v = shfl %t, %one [mode = "xor"]
    st_global %out, %v [width = 1]
  } {
  }
)");

inline const std::string kLoop = kernel(32, R"(
  %ten = const [value = 10] : i32
  %n = while %zero : i32 { (%i: i32)
    %go = cmp %i, %ten [pred = "lt"]
    yield %go
  } { (%j: i32)
    %next = add %j, %one
    yield %next
  }
  st_global %out, %n [width = 1]
)");

inline const std::string kStore = kernel(64, R"(
  %cta = ctaid [axis = 0]
  %c64 = const [value = 64] : i32
  %from = mul %cta, %c64
  %i = add %from, %t
  %at = addptr %g, %i
  st_global %at, %t [width = 1]
)");

inline const std::string kSetMaxNReg = kernel(384, R"(
  roles [warps = [4, 8], names = "small,big"] {
    setmaxnreg [mode = "dec", regs = [40]]
  } {
    setmaxnreg [mode = "inc", regs = [232]]
  }
)");

inline const std::string kTrap = kernel(32, R"(
  %c = cmp %t, %zero [pred = "lt"]
  if %c { trap } { }
)");

inline const std::string bar = "bar_sync %zero [count = 64]";
inline const std::string kBarOfFlag = "bar_sync %zero [count = 64]\n    %before";

/// Threads store words that a TMA load brings.
inline const std::string kFilledSource =
    replaced(kTmaLoad, "  if %first {\n    mbar_init",
             "  %source = addptr %held, %t\n  st_global %source, %t [width = 1]\n"
             "  fence_proxy_async [kind = \"global\"]\n  if %first {\n    mbar_init");

inline const std::string kWritten0 = "tma_wait [count = 0]\n    pin",
                         kSourceRead = "tma_wait [count = 0, read = 1]\n    pin";
/// A box that TMA stores twice; one that it stores and threads read.
inline const std::string kStoredTwice =
    replaced(kTmaStore, "tma_wait [count = 0, read = 1]",
             kWritten0 +
                 "\n    tma_store %o, %base, %zero, %zero\n    tma_commit\n"
                 "    tma_wait [count = 0, read = 1]");
inline const std::string kStoredAndRead =
    replaced(replaced(replaced(kTmaStore, "tma_wait [count = 0, read = 1]", kWritten0),
                      "tma_store %o", "tma_store %m"),
             "st_shared %mine, %t [width = 1]\n",
             "%source = addptr %held, %t\n  %v1 = ld_global %source [width = 1] : i32\n"
             "  st_shared %mine, %v1 [width = 1]\n");

inline std::vector<Case> global_cases() {
  const std::string bare = "sem = \"release\", ", whole = bare + "scope = \"gpu\"";
  const auto checked = [](Detector kind, const char* name, const std::string& of) -> Case {
    const std::string trap = "trap [kind = \"" + of + "\"]";
    return {kind, name, replaced(kTrap, "trap", trap), "pred = \"lt\"", "pred = \"eq\""};
  };
  return {
      {Detector::ProgramRace, "words of another warp without barrier", exchange_in_global(32), bar,
       "pin"},
      {Detector::ProgramRace, "words of another lane without warp_sync",
       replaced(exchange_in_global(1), bar, "warp_sync"), "warp_sync", "pin"},
      {Detector::ProgramRace, "stored over before it was read",
       replaced(exchange_in_global(32), "%behind, %v [width = 1]\n",
                "%behind, %v [width = 1]\n  bar_sync %one [count = 64]\n"
                "  st_global %out, %zero [width = 1]\n"),
       "bar_sync %one [count = 64]", "pin"},
      {Detector::ProgramRace, "atomics read without barrier",
       replaced(exchange_in_global(32), "st_global %out, %t [width = 1]",
                "%was = atom_global %out, %t [kind = \"add\"]"),
       bar, "pin"},
      {Detector::GlobalRace,
       "lock given back without release",
       kLock,
       bare,
       "sem = \"relaxed\", ",
       {4, 1, 1}},
      {Detector::GlobalRace,
       "lock taken without acquire",
       kLock,
       "sem = \"acquire\"",
       "sem = \"relaxed\"",
       {4, 1, 1}},
      {Detector::GlobalRace, "flag raised without release", kFlag, bare, "", kTwoCtas},
      {Detector::WaitPlain, "flag awaited by a plain load", kWait,
       "atom_global %flag, %zero, %leads [kind = \"or\", sem = \"acquire\", scope = \"gpu\"]",
       "ld_global %flag [width = 1] : i32", kTwoCtas},
      {Detector::GlobalProxy, "source of a TMA load stored without proxy fence", kFilledSource,
       "fence_proxy_async [kind = \"global\"]", "pin"},
      {Detector::GlobalProxy, "fenced for shared memory alone", kFilledSource,
       "fence_proxy_async [kind = \"global\"]", "fence_proxy_async"},
      {Detector::BulkOrder, "a box stored twice", kStoredTwice, kWritten0, kSourceRead},
      {Detector::BulkOrder, "a stored box read before it was written", kStoredAndRead, kWritten0,
       kSourceRead},
      {Detector::ReleaseEarly,
       "lock given back for one lane",
       kLock,
       "warp_sync",
       "pin",
       {4, 1, 1}},
      {Detector::ReleaseEarly, "flag raised before all have stored", kFlag, kBarOfFlag, "%before",
       kTwoCtas},
      {Detector::ScopeRace, "flag for the own CTA alone", kFlag, whole, bare + "scope = \"cta\"",
       kTwoCtas},
      {Detector::Deadlock,
       "lock never given back",
       kLock,
       "%lock, %zero, %first",
       "%lock, %one, %first",
       {2, 1, 1}},
      {Detector::Deadlock, "loop that changes nothing", kLoop, "add %j, %one", "add %j, %zero"},
      checked(Detector::Assume, "assumption that does not hold", "assume"),
      {Detector::Assume, "comparison that does not hold",
       replaced(kTrap, "trap", "trap %t, %zero [kind = \"assume\", pred = \"gt\"]"),
       "pred = \"lt\"", "pred = \"eq\""},
      {Detector::DivisionByZero, "stored quotient by zero", kQuotient, "%t, %one", "%t, %zero"},
      {Detector::ScatterRepeats, "lanes store different values to one element", kQuotient,
       "%at = addptr %g, %t", "%at = addptr %g, %zero"},
      {Detector::ReleasedRead, "released words are read", kReleased, "value = 128", "value = 160"},
      checked(Detector::OutsideRead, "element read outside its view", "inside"),
      checked(Detector::LostElements, "accumulator that loses an element", "elements"),
      checked(Detector::ContractionDiffers, "operands of different lengths", "contraction"),
      checked(Detector::WorkList, "list that misses a request", "work list"),
      checked(Detector::PageEntry, "entry that names no page", "page entry"),
      checked(Detector::PageRoom, "more rows than entries", "page room"),
      checked(Detector::RequestLengths, "more queries than keys", "request"),
  };
}

inline std::vector<Case> cluster_cases() {
  return {
      {Detector::SharedRace, "remote read without cluster barrier", kCluster, kWritten, "",
       kTwoCtas},
      {Detector::SharedRace, "remote read behind an arrival alone", kCluster, kWritten,
       "  cluster_arrive\n", kTwoCtas},
      {Detector::SharedRace, "memory reused before the other has read it", kCluster, kRead,
       "  st_shared %mine, %zero [width = 1]\n" + kRead, kTwoCtas},
      {Detector::RemoteExit, "exit while the other may read", kCluster, kRead, "", kTwoCtas},
      {Detector::RemoteExit, "exit behind an arrival alone", kCluster, kRead, "  cluster_arrive\n",
       kTwoCtas},
      {Detector::BarrierCount, "cluster barrier arrived at twice", kCluster, kRead,
       "  cluster_arrive\n" + kRead, kTwoCtas},
      {Detector::BarrierCount, "cluster barrier waited for without arrival", kCluster, kRead,
       kRead + "  cluster_wait\n", kTwoCtas},
      {Detector::Deadlock, "a CTA never comes to the cluster barrier", kCluster, kRead,
       "  %is1 = cmp %rank, %one [pred = \"eq\"]\n  if %is1 { bar_sync %one [count = 96] } { }\n" +
           kRead,
       kTwoCtas},
      {Detector::SharedBounds, "a rank that the cluster does not have", kCluster, "xor %rank, %one",
       "xor %rank, %two", kTwoCtas},
      {Detector::SharedBounds, "a remote address that was not mapped", kCluster, "add %there, %t4",
       "add %base, %t4", kTwoCtas},
      {Detector::SharedBounds, "a descriptor of an address with its CTA's rank", kClusterWgmma,
       "smem_desc %low", "smem_desc %base", kTwoCtas},
      {Detector::Divergence, "a cluster barrier in a branch", kCluster, kRead,
       "  if %first { cluster_arrive } { cluster_arrive }\n  cluster_wait\n", kTwoCtas},
  };
}

inline std::vector<Case> multicast_cases() {
  const std::string done = "  cluster_arrive ; done\n  cluster_wait\n";
  return {
      {Detector::EarlyOverwrite, "a half comes while the other CTA still reads", kMulticast,
       "and %lane, %one", "or %rank, %zero", kTwoCtas},
      {Detector::EarlyOverwrite, "a half comes without waiting for its readers", kMulticast,
       "    mbar_wait %read, %zero\n", "", kTwoCtas},
      {Detector::Deadlock, "the second CTA is not told that its slot has been read", kMulticast,
       "cmp %lane, %two", "cmp %lane, %one", kTwoCtas},
      {Detector::TxMismatch, "the half of the other CTA not expected", kMulticast,
       "  if %first {\n    mbar_expect_tx %bar [bytes = 16384]",
       "  if %first {\n    mbar_expect_tx %bar [bytes = 8192]", kTwoCtas},
      {Detector::TxMismatch, "a half for this CTA alone", kMulticast,
       "    mbar_wait %read, %zero\n    mbar_expect_tx %bar [bytes = 16384]\n    tma_load %m, %to, "
       "%bar, %zero, %zero [cluster_ctas = 2]",
       "    mbar_wait %read, %zero\n    mbar_expect_tx %bar [bytes = 16384]\n    tma_load %m, %to, "
       "%bar, %zero, %zero",
       kTwoCtas},
      {Detector::MbarrierMisuse, "copied to a CTA that has not begun", kMulticast,
       "  cluster_arrive ; ready\n  cluster_wait\n", "  bar_sync %zero [count = 64]\n", kTwoCtas},
      {Detector::RemoteExit, "exit while the other may arrive", kMulticast, done, "", kTwoCtas},
      {Detector::SharedBounds, "an arrival at an address that was not mapped", kMulticast,
       "map_shared %read, %of_lane", "add %read, %zero", kTwoCtas},
  };
}

/// Lanes of one warp.
inline std::vector<Case> lane_cases() {
  return {
      {Detector::LaneRace, "exchange in a warp without barrier", exchange(1), bar, "pin"},
      {Detector::LaneRace, "a shuffle instead, which orders no memory", exchange(1), bar,
       "%s = shfl %t, %zero [mode = \"idx\"]"},
      {Detector::SharedRace, "one lane releases what others read", kRelease, "warp_sync", "pin"},
      {Detector::SharedRace, "bytes of lane 0 in a word of two lanes", kHalves, bar, "pin"},
  };
}

inline std::vector<Case> cta_cases() {
  return {
      {Detector::SharedRace, "exchange without barrier", exchange(32), bar, "pin"},
      {Detector::ProxyFence, "TMA store behind a barrier alone", kTmaStore, "fence_proxy_async",
       "pin"},
      {Detector::AsyncUnordered, "TMA store without barrier", kTmaStore, bar, "pin"},
      {Detector::EarlyOverwrite, "source of a TMA store overwritten", kTmaStore,
       "tma_wait [count = 0, read = 1]", "pin"},
      {Detector::EarlyOverwrite, "one group too few waited for", kTmaStore, "count = 0, read = 1",
       "count = 1, read = 1"},
      {Detector::MbarrierWait, "TMA data without wait", kTmaLoad, "mbar_wait %bar, %zero", "pin"},
      {Detector::WrongParity, "wait that passes at once", kTmaLoad, "mbar_wait %bar, %zero",
       "mbar_wait %bar, %one"},
      {Detector::CpAsyncWait, "cp.async not waited for", kCpAsync, "cp_async_wait [count = 0]",
       "pin"},
      {Detector::CpAsyncWait, "cp.async group still in flight", kCpAsync,
       "cp_async_wait [count = 0]", "cp_async_wait [count = 1]"},
      {Detector::TxMismatch, "too few bytes expected", kTmaLoad, "bytes = 8192", "bytes = 4096"},
      {Detector::TxMismatch, "too many bytes expected", kTmaLoad, "bytes = 8192", "bytes = 8208"},
      {Detector::MbarrierMisuse, "initialisation not fenced", kTmaLoad, "fence_mbar_init", "pin"},
      {Detector::MbarrierMisuse, "initialisation not ordered",
       replaced(kTmaLoad, "bar_sync %one [count = 64]", "pin"), bar, "pin"},
      {Detector::BarrierCount, "barrier left half full", kNamed, "bar_sync %three [count = 64]",
       "pin"},
      {Detector::Divergence, "shuffle without lane 0", kShuffle, "pred = \"ge\"", "pred = \"gt\""},
      {Detector::Deadlock, "one arrival too few", kTmaLoad, "mbar_init %bar [count = 1]",
       "mbar_init %bar [count = 2]"},
      {Detector::Deadlock, "barrier of three warps", exchange(32), bar,
       "bar_sync %zero [count = 96]"},
      {Detector::Watchdog, "endless loop", kLoop, "add %j, %one", "sub %j, %one"},
      {Detector::Accumulator, "accumulator taken in flight", wgmma(false),
       "wgmma_wait %p [count = 0]", "wgmma_wait %p [count = 1]"},
      {Detector::Accumulator, "accumulator never committed", wgmma(false), "wgmma_commit", "pin"},
      {Detector::AFragment, "A registers not kept", wgmma(true), "wgmma_wait %p, %frag",
       "wgmma_wait %p"},
      {Detector::WgmmaFence, "no fence", wgmma(false), "wgmma_fence", "pin"},
      {Detector::WgmmaFence, "A written after the fence", wgmma(true), "%p = wgmma %none, %frag,",
       "%late = add %frag, %zero\n  %p = wgmma %none, %late,"},
      {Detector::WgmmaOperand, "descriptors differ between warps", wgmma(false), "mul %warp, %zero",
       "mul %warp, %c16k"},
      {Detector::ProxyFence, "wgmma of own data behind a barrier alone", kWgmmaOwnData,
       "fence_proxy_async", "pin"},
      {Detector::AsyncUnordered, "wgmma of own data without barrier", kWgmmaOwnData,
       "bar_sync %zero [count = 128]", "pin"},
      {Detector::EarlyOverwrite, "overwritten before the wait", kWgmmaOwnData, "wgmma_commit",
       "wgmma_commit\n  st_shared %mine, %t [width = 1]"},
      {Detector::MbarrierWait, "wgmma without wait", wgmma(false), "mbar_wait %bar, %zero", "pin"},
      {Detector::SetMaxNReg, "not a multiple of 8", kSetMaxNReg, "regs = [40]", "regs = [44]"},
      {Detector::SetMaxNReg, "more than the register file", kSetMaxNReg, "regs = [40]",
       "regs = [104]"},
      {Detector::AsyncAtExit, "TMA store not waited for",
       replaced(kTmaStore, "st_shared %mine, %t [width = 1]", "pin"),
       "tma_wait [count = 0, read = 1]", "pin"},
      {Detector::Poison, "shared memory never written", exchange(32),
       "st_shared %mine, %t [width = 1]", "pin"},
      {Detector::Poison, "TMA store of memory never written",
       replaced(kTmaStore, "%end = add %row_at, %c128", "%end = add %row_at, %c128 ; whole"),
       "%end = add %row_at, %c128", "%end = add %row_at, %c16"},
      {Detector::SharedBounds, "behind the end", exchange(32), "%mine, %t [width = 1]",
       "%mine, %t [width = 1]\n  %far = add %bar, %c16k\n  st_shared %far, %t [width = 1]"},
      {Detector::GlobalBounds,
       "behind the buffer",
       kStore,
       "const [value = 64]",
       "const [value = 256]",
       {2, 1, 1}},
      {Detector::Misaligned, "two bytes off", exchange(32), "st_shared %mine",
       "%odd = add %mine, %two\n  st_shared %odd"},
      {Detector::TensorMapRule, "box address not aligned", kTmaLoad, "tma_load %m, %base",
       "tma_load %m, %mine16"},
      {Detector::GlobalRace,
       "two CTAs write one word",
       kStore,
       "const [value = 64]",
       "const [value = 32]",
       {2, 1, 1}},
      {Detector::Trapped, "trap reached", kTrap, "pred = \"lt\"", "pred = \"eq\""},
  };
}

inline std::vector<Case> all_cases() {
  std::vector<Case> all = lane_cases();
  for (const auto& cases : {cta_cases, global_cases, cluster_cases, multicast_cases})
    for (Case& c : cases()) all.push_back(std::move(c));
  return all;
}

inline std::string faulty(const Case& c) {
  std::string text = replaced(c.sound, c.from, c.to);
  if (text.find("%mine16") != std::string::npos)
    text = replaced(text, "  %c16k =",
                    "  %c16b = const [value = 16] : i32\n  %mine16 = add %base, %c16b\n  %c16k =");
  return text;
}

}  // namespace tegula::sim
