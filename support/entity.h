#pragma once
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory_resource>
#include <vector>

namespace tegula {

/// A typed index into a dense array: cheap to copy, stable when the array grows, and a type
/// distinct from the index of any other kind of entity.
template <class Tag>
struct EntityId {
  static constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();
  std::uint32_t index = kNone;

  constexpr EntityId() = default;
  constexpr explicit EntityId(std::uint32_t i) : index(i) {}
  constexpr explicit operator bool() const { return index != kNone; }
  friend constexpr auto operator<=>(EntityId, EntityId) = default;
};

/// Dense storage addressed by one kind of id. An entity keeps its id; ids are never reused.
template <class Id, class Data>
class EntityMap {
 public:
  explicit EntityMap(std::pmr::memory_resource* arena) : data_(arena) {}

  template <class... Args>
  Id add(Args&&... args) {
    data_.emplace_back(std::forward<Args>(args)...);
    return Id(static_cast<std::uint32_t>(data_.size() - 1));
  }
  Data& operator[](Id id) { return data_[id.index]; }
  const Data& operator[](Id id) const { return data_[id.index]; }
  std::size_t size() const { return data_.size(); }

 private:
  std::pmr::vector<Data> data_;
};

}  // namespace tegula

template <class Tag>
struct std::hash<tegula::EntityId<Tag>> {
  std::size_t operator()(tegula::EntityId<Tag> id) const noexcept { return id.index; }
};
