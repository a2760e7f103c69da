#pragma once
// Common beginnings of the kernels of the detectors' tests, and the kernels that communicate
// through global memory.
#include "tests/unit/codegen/sim_test.h"

namespace tegula::sim {

inline constexpr std::string_view kHead =
    "kernel @k simt target(sm_90a) threads({T}) smem(33792) (%m: tmap [box = [64, 64], swizzle = "
    "128], "
    "%o: tmap [box = [64, 64], swizzle = 128], %g: ptr<i32>, %held: ptr<i32>) {\n"
    "  %zero = const [value = 0] : i32\n  %one = const [value = 1] : i32\n  %two = const [value = "
    "2] : i32\n"
    "  %four = const [value = 4] : i32\n  %t = tid\n  %lane = lane_id\n  %warp = warp_id\n  %base "
    "= smem_base\n"
    "  %t4 = mul %t, %four\n  %mine = add %base, %t4\n  %first = cmp %t, %zero [pred = \"eq\"]\n"
    "  %out = addptr %g, %t\n  %b_off = const [value = 32768] : i32\n  %bar = add %base, %b_off\n"
    "  %c16k = const [value = 16384] : i32\n  %high = add %base, %c16k\n";

inline std::string kernel(int threads, std::string_view body) {
  return replaced(std::string(kHead), "{T}", std::to_string(threads)) + std::string(body) + "}\n";
}

/// Every thread stores a word to global memory and loads the word of thread `t ^ distance`.
inline std::string exchange_in_global(int distance) {
  return kernel(64, "  %d = const [value = " + std::to_string(distance) + R"(] : i32
  st_global %out, %t [width = 1]
  bar_sync %zero [count = 64]
  %other = xor %t, %d
  %there = addptr %g, %other
  %v = ld_global %there [width = 1] : i32
  %c64 = const [value = 64] : i32
  %behind = addptr %out, %c64
  st_global %behind, %v [width = 1]
)");
}

/// Threads store words that the host has not released: of 256, those from 160 to 191 are.
inline const std::string kReleased = kernel(32, R"(
  %away = const [value = 128] : i32
  %from = addptr %g, %away
  %at = addptr %from, %t
  %v = ld_global %at [width = 1] : i32
  st_global %out, %v [width = 1]
)");

inline const std::string kQuotient = kernel(32, R"(
  %q = div %t, %one
  %at = addptr %g, %t
  st_global %at, %q [width = 1]
)");

/// Each CTA takes a lock, adds to 32 words, and gives the lock back.
inline const std::string kLock = kernel(32, R"(
  %c250 = const [value = 250] : i32
  %lock = addptr %g, %c250
  while {
    %old = atom_global %lock, %one, %first [kind = "xchg", sem = "acquire", scope = "gpu"]
    %told = shfl %old, %zero [mode = "idx"]
    %busy = cmp %told, %one [pred = "eq"]
    yield %busy
  } {
    yield
  }
  %v = ld_global %out [width = 1] : i32
  %sum = add %v, %one
  st_global %out, %sum [width = 1]
  warp_sync
  %mine_again = atom_global %lock, %zero, %first [kind = "xchg", sem = "release", scope = "gpu"]
)");

/// The first CTA stores words and raises a flag, for which the second waits.
inline const std::string kFlag = kernel(64, R"(
  %cta = ctaid [axis = 0]
  %c250 = const [value = 250] : i32
  %flag = addptr %g, %c250
  %is0 = cmp %cta, %zero [pred = "eq"]
  if %is0 {
    st_global %out, %t [width = 1]
    bar_sync %zero [count = 64]
    %before = atom_global %flag, %one, %first [kind = "xchg", sem = "release", scope = "gpu"]
  } {
    while {
      %leads = cmp %lane, %zero [pred = "eq"]
      %now = atom_global %flag, %zero, %leads [kind = "or", sem = "acquire", scope = "gpu"]
      %told = shfl %now, %zero [mode = "idx"]
      %waits = cmp %told, %zero [pred = "eq"]
      yield %waits
    } {
      yield
    }
    %v = ld_global %out [width = 1] : i32
    %c64 = const [value = 64] : i32
    %behind = addptr %out, %c64
    st_global %behind, %v [width = 1]
  }
)");

/// The first CTA waits for the flag that the second raises.
inline const std::string kWait = replaced(kFlag, "cmp %cta, %zero", "cmp %cta, %one");

}  // namespace tegula::sim
