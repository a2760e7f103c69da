#pragma once
// A Schedule: which role runs each op of a kernel, when, and through which channels tiles move. It
// is a plain value of names and numbers that refers to ops by label, so it can outlive the kernel
// it was made for.
//
// Waits, releases, fences, barrier ids and arrival counts are derived from a Schedule (judge.h),
// not stored in it.
#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ir/target.h"
#include "tegula/location.h"

namespace tegula::ir {

/// An interned name. Copying it costs as much as copying a pointer.
template <class Tag>
class Symbol {
 public:
  Symbol() = default;
  Symbol(std::string_view text)  // NOLINT(google-explicit-constructor)
      : text_(intern(text)) {}
  Symbol(const char* text)  // NOLINT(google-explicit-constructor)
      : text_(intern(text)) {}

  std::string_view str() const { return text_; }
  explicit operator bool() const { return *text_ != 0; }
  friend bool operator==(Symbol a, Symbol b) { return a.str() == b.str(); }
  friend auto operator<=>(Symbol a, Symbol b) { return a.str() <=> b.str(); }

 private:
  const char* text_ = "";
};

/// Label of a node of the dependence graph (graph.h): load#0, dot#1, reduce#0, store#0, cvt#0,
/// if#0, loop#0, ew#0.
using Label = Symbol<struct LabelTag>;
/// Name of a role, a channel or a token.
using Name = Symbol<struct NameTag>;

/// How a channel moves a tile: TMA loads, cp.async copies, a register tile through shared memory,
/// bulk reduce-adds and TMA stores to global memory, or registers carried by the loop.
enum class ChannelKind : std::uint8_t { Tma, CpAsync, Smem, Reduce, Store, Register };
/// The instructions of a dot: wgmma, mma.sync, or scalar fma.
enum class Engine : std::uint8_t { Wgmma, Mma, Fma };
/// Order in which CTAs compute tiles. Each: one tile per CTA; the others are persistent
/// (docs/schedule.md).
enum class TileOrder : std::uint8_t { Each, Serpentine, Balanced, Counter };

std::string_view name(ChannelKind kind);
std::string_view name(Engine engine);
std::string_view name(TileOrder order);

/// Warps that run the same ops. With two copies, they process tiles alternately (ping-pong).
struct Role {
  Name name;
  int warps = 4;   ///< of one copy
  int copies = 1;  ///< 1 or 2
  int regs = 0;    ///< registers per thread after setmaxnreg; 0: as at kernel entry
  friend bool operator==(const Role&, const Role&) = default;
};

/// How a dot is computed; flip: as its transpose (swap A/B).
struct DotForm {
  Label dot;
  Engine engine = Engine::Wgmma;
  bool flip = false;
  friend bool operator==(const DotForm&, const DotForm&) = default;
};

/// A ring of slots between the steps that fill it and those that read it.
struct Channel {
  Name name;
  ChannelKind kind = ChannelKind::Tma;
  int slots = 1;
  /// Loads that fill a slot together, or nodes whose tile goes through it.
  std::vector<Label> payload;
  bool multicast = false;  ///< each CTA of a cluster loads a part and multicasts it
  int columns = 0;         ///< of a store or reduce: columns per slot; 0: all
  friend bool operator==(const Channel&, const Channel&) = default;
};

/// Node `op` runs in role `role`. In step t of the steady state it runs for iteration t - stage;
/// `order` sorts the steps of a role.
struct Step {
  Label op;
  std::uint8_t role = 0;  ///< index into Schedule::roles
  std::int8_t stage = 0;
  std::int16_t order = 0;
  std::int8_t in_flight = 0;  ///< of a dot: its earlier MMAs that may be incomplete after it
  bool pin = false;           ///< a pin precedes the last wait before the step
  friend bool operator==(const Step&, const Step&) = default;
};

/// Makes the warpgroups of a role run the steps first .. last one after another.
struct Token {
  Name name;
  std::uint8_t role = 0;
  Label first, last;
  friend bool operator==(const Token&, const Token&) = default;
};

/// The steps of one loop. A node that is not listed runs just before its earliest consumer.
struct LoopSchedule {
  Label loop;
  std::vector<Step> steps;
  friend bool operator==(const LoopSchedule&, const LoopSchedule&) = default;
};

struct Tiles {
  TileOrder order = TileOrder::Each;
  int cluster = 1;       ///< CTAs per cluster, on adjacent tiles
  bool overlap = false;  ///< the last stages of a tile overlap the first ones of the next
  int ctas = 1;          ///< CTAs that must fit on an SM
  friend bool operator==(const Tiles&, const Tiles&) = default;
};

struct Schedule {
  Target target;
  std::vector<Role> roles;
  std::vector<DotForm> dots;
  Tiles tiles;
  std::vector<Channel> channels;
  std::vector<Token> tokens;
  std::vector<LoopSchedule> loops;

  const DotForm* find_dot(Label dot) const;
  const LoopSchedule* find_loop(Label loop) const;
  /// Returns the channel that carries the payload, or null.
  const Channel* find_channel(Label payload) const;
  /// Returns the index of the role of this name, or roles.size().
  std::size_t role_index(Name name) const;
  friend bool operator==(const Schedule&, const Schedule&) = default;
};

}  // namespace tegula::ir
