#pragma once
// Computes the addresses of elements of a view.
#include <functional>

#include "ir/builder.h"

namespace tegula::ir {

struct BoxAccess;

struct ViewAddresses {
  Value pointers;
  Value inside;  ///< i1: the element is within the view
};

/// Returns the addresses of the elements at `index(axis)`: scalars or tiles of one shape, of the
/// scalar type `index_type`. Calls `index` once per axis, in the order of the axes.
ViewAddresses view_addresses(Builder& b, Value view, Type index_type,
                             const std::function<Value(int axis)>& index);

/// Returns the addresses of the box of a load_view, store_view or atomic_view.
ViewAddresses box_addresses(Builder& b, const BoxAccess& access);

}  // namespace tegula::ir
