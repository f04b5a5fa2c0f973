#include "tests/conformance/communicator/allocation_count.h"

#include <cstdlib>
#include <new>

namespace {

thread_local int64_t allocations = 0;

void* allocate(size_t bytes) {
  ++allocations;
  if (void* const memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
  throw std::bad_alloc();
}

}  // namespace

void* operator new(size_t bytes) { return allocate(bytes); }
void* operator new[](size_t bytes) { return allocate(bytes); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, size_t) noexcept { std::free(memory); }

namespace lockstep::conformance {

int64_t allocations_of_this_thread() { return allocations; }

}  // namespace lockstep::conformance
