#pragma once
#include <source_location>

#include "tegula/location.h"
#include "tegula/stream.h"
#include "tegula/tensor.h"

/// Marks memory without contents, so that reads of it are found.
namespace tegula {

/// Marks the elements of `rows`, such as a page of a KV cache that no request needs any more, as
/// released: `cpu` and `sim` report a kernel that reads one of them before it is written again
/// (T1693). Any write ends the mark of the elements that it changes, so a page that another request
/// appends to is read as usual. `rows` has floating-point elements and any strides.
///
///     poison(cache.k.slice(0, page, page + 1));
///
/// Sets all bytes to 0xff, which is NaN in every floating-point type. On a GPU that is all: the
/// stream executes one memset per contiguous part of `rows`, which a CUDA graph can record, and
/// nothing is reported. On the host the call does not wait for a stream, and an element that is
/// written with the same bytes counts as released. Memory of `Tensor::borrow` keeps its marks while
/// a tensor borrows it. Throws CompileError if `rows` is undefined (T0703), has elements of another
/// type (T0702), or is on another device than the stream (T0707).
void poison(const Tensor& rows, const Stream& stream, Loc at = std::source_location::current());
/// The same on the default stream of the device.
void poison(const Tensor& rows, Loc at = std::source_location::current());

}  // namespace tegula
