#pragma once
// Counts the allocations of a thread, so that a test can show that a call makes none. A program
// that includes this header links counted_allocations.cpp, which replaces the global operator new.
namespace tegula::test {

/// Returns the number of allocations that this thread has made.
int allocations();

}  // namespace tegula::test
