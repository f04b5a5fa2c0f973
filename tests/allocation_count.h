// Counts the calling thread's allocations through operator new (replaced in allocation_count.cpp).
#pragma once

#include <cstdint>

namespace lockstep {

/// Allocations of this thread so far.
int64_t allocations_of_this_thread();

}  // namespace lockstep
