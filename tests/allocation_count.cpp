#include "tests/allocation_count.h"

#include <cstdlib>
#include <new>

namespace {

thread_local int64_t allocations = 0;

void* allocate_or_null(size_t bytes) {
  ++allocations;
  return std::malloc(bytes == 0 ? 1 : bytes);
}

void* allocate(size_t bytes) {
  if (void* const memory = allocate_or_null(bytes)) return memory;
  throw std::bad_alloc();
}

}  // namespace

void* operator new(size_t bytes) { return allocate(bytes); }
void* operator new[](size_t bytes) { return allocate(bytes); }
void* operator new(size_t bytes, const std::nothrow_t&) noexcept { return allocate_or_null(bytes); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, size_t) noexcept { std::free(memory); }

namespace lockstep {

int64_t allocations_of_this_thread() { return allocations; }

}  // namespace lockstep
