#include "dsl/tuned_calls.h"

#include <fmt/format.h>

#include <algorithm>

#include "dsl/instance.h"

namespace tegula {

std::string str(const Tuning& tuning) {
  std::string text;
  for (const auto& [name, value] : tuning)
    text += fmt::format("{}{}={}", text.empty() ? "" : " ", name, value);
  return text;
}

}  // namespace tegula

namespace tegula::dsl {
namespace {

constinit std::atomic<TuningChooser> tuning_chooser = nullptr;

void add_shapes(CallKey& key, const HostArg& a) {
  key.add(static_cast<std::uint64_t>(a.kind));
  if (a.kind == ParamKind::Constant) key.add(a.bits);
  if (a.kind == ParamKind::View || a.kind == ParamKind::Pointer) key.add(MemoryClass::of(a));
  if (a.tensor == nullptr) return;
  key.add(static_cast<std::uint64_t>(a.tensor->rank()) << 8 |
          static_cast<std::uint64_t>(a.tensor->dtype()));
  for (std::size_t i = 0; i < a.tensor->shape().size(); ++i) {
    key.add(static_cast<std::uint64_t>(a.tensor->shape()[i]));
    key.add(static_cast<std::uint64_t>(a.tensor->strides()[i]));
  }
}

}  // namespace

void set_tuning_chooser(TuningChooser chooser) { tuning_chooser = chooser; }

CallKey shapes_key(const KernelInstance& kernel, std::span<const HostArg> args, Device device) {
  CallKey key;
  key.add(static_cast<std::uint64_t>(device.kind) << 32 | static_cast<std::uint64_t>(device.index));
  for (const HostArg& a : args) add_shapes(key, a);
  for (const Capture& c : kernel.known().captures) add_shapes(key, c.read());
  return key;
}

bool TunedCalls::note(const TraceResult& traced, const Tuning& given) {
  if (state_ != State::unknown) return false;
  // If the caller gave a value, as the library does, defaults of other names stay.
  const bool is_open = std::ranges::any_of(traced.tunables, [&](const Tunable& t) {
    return t.set.size() > 1 && !given.contains(t.name) && (given.empty() || !t.has_default);
  });
  state_ = is_open && tuning_chooser != nullptr ? State::chooses : State::nothing;
  return state_ == State::chooses;
}

const TunedCalls::Entry* TunedCalls::look_up(const CallKey& shapes) const {
  const Entry* e = heads_[shapes.a % kHeads].load(std::memory_order_acquire);
  while (e != nullptr && !(e->shapes == shapes)) e = e->next;
  return e;
}

/// Returns the kernel with the values of a choice, which calls of all shapes share, or null.
std::shared_ptr<KernelInstance> TunedCalls::chosen_by(KernelInstance& kernel,
                                                      const std::optional<TunedChoice>& choice) {
  if (!choice) return nullptr;
  std::shared_ptr<KernelInstance>& instance =
      instances_[{choice->values, ir::str(choice->preferred)}];
  if (!instance) instance = kernel.with(choice->values)->preferring(choice->preferred);
  return instance;
}

/// A newer entry of the same shapes precedes the older one, which calls may still be using.
const TunedCalls::Entry* TunedCalls::add(const CallKey& shapes,
                                         std::shared_ptr<KernelInstance> chosen, std::string why) {
  auto& head = heads_[shapes.a % kHeads];
  entries_.push_back(
      std::make_unique<const Entry>(Entry{shapes, std::move(chosen), std::move(why), head.load()}));
  head.store(entries_.back().get(), std::memory_order_release);
  return entries_.back().get();
}

KernelInstance* TunedCalls::find(KernelInstance& kernel, const Stream* stream,
                                 std::span<const HostArg> args, Device device) {
  const CallKey shapes = shapes_key(kernel, args, device);
  const Entry* entry = look_up(shapes);
  if (entry == nullptr) [[unlikely]] {
    const TuningChooser chooser = tuning_chooser;
    if (chooser == nullptr) return nullptr;
    std::optional<TunedChoice> choice = chooser(kernel, stream, args, device);
    const std::lock_guard lock(mutex_);
    entry = look_up(shapes);  // the chooser may have set them, or another thread
    if (entry == nullptr) {
      auto chosen = chosen_by(kernel, choice);
      if (entries_.size() >= kMaxEntries) return chosen.get();
      entry = add(shapes, std::move(chosen), choice ? std::move(choice->why) : std::string());
    }
  }
  if (latest_.load(std::memory_order_relaxed) != entry)
    latest_.store(entry, std::memory_order_release);
  return entry->chosen.get();
}

void TunedCalls::set(KernelInstance& kernel, const CallKey& shapes, const TunedChoice& measured) {
  state_ = State::chooses;
  const std::lock_guard lock(mutex_);
  auto chosen = chosen_by(kernel, measured);
  latest_.store(add(shapes, std::move(chosen), "tune(): measured: " + str(measured.values) + "\n"),
                std::memory_order_release);
}

}  // namespace tegula::dsl
