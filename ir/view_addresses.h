#pragma once
// Elements of a view by their addresses.
#include <functional>

#include "ir/builder.h"

namespace tegula::ir {

struct ViewAddresses {
  Value pointers;
  Value inside;  ///< i1: within the view
};

/// The elements at `index(axis)`: scalars or tiles of one shape, of the scalar type `index_type`.
/// Each index is asked for once, in the order of the axes.
ViewAddresses view_addresses(Builder& b, Value view, Type index_type,
                             const std::function<Value(int axis)>& index);

/// Addresses of the box that a load_view, store_view or atomic_view names, whose tile has type
/// `tile`.
ViewAddresses box_addresses(Builder& b, const OpData& op, Type tile);

}  // namespace tegula::ir
