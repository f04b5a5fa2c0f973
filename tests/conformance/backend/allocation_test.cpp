// A step makes no allocation: this program stands between every backend and the heap, and counts.
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <vector>

#include "tests/conformance/backend/tiny_model.h"

extern "C" {
// glibc's own entry points, below the ones that are replaced here.
void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t count, size_t bytes);
void* __libc_realloc(void* block, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);
}

namespace {

std::atomic<bool> counting = false;
std::atomic<int> allocations = 0;

void count() {
  if (counting.load(std::memory_order_relaxed)) allocations.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace

// operator new, std::vector and libtorch all end here, on every thread; `free` needs no replacement.
extern "C" void* malloc(size_t bytes) {
  count();
  return __libc_malloc(bytes);
}
extern "C" void* calloc(size_t n, size_t bytes) {
  count();
  return __libc_calloc(n, bytes);
}
extern "C" void* realloc(void* block, size_t bytes) {
  count();
  return __libc_realloc(block, bytes);
}
extern "C" void* memalign(size_t alignment, size_t bytes) {
  count();
  return __libc_memalign(alignment, bytes);
}
extern "C" void* aligned_alloc(size_t alignment, size_t bytes) {
  count();
  return __libc_memalign(alignment, bytes);
}
extern "C" int posix_memalign(void** block, size_t alignment, size_t bytes) {
  count();
  *block = __libc_memalign(alignment, bytes);
  return *block == nullptr ? ENOMEM : 0;
}

namespace lockstep::conformance {
namespace {

/// Allocations inside `run` while prompts are prefilled and tokens decoded, on all threads.
int allocations_in_run(const BackendUnderTest& backend, int threads) {
  const TinyOptions options;
  const TinyRank tiny = make_tiny_rank(options, 0);
  Session session(backend, tiny.graphs, nullptr, threads);
  session.set(tiny.contents);
  allocations = 0;
  const Driver driver{[&](size_t graph, const Contents& inputs) {
                        const std::vector<device::HostTensor> ordered = inputs_in_order(tiny.graphs[graph], inputs);
                        counting = true;
                        const bool ran = session.executable(graph).run(ordered).has_value();
                        counting = false;
                        EXPECT_TRUE(ran);
                        return session.outcome(graph);
                      },
                      [&](const Contents& states) { session.set(states); }};
  generate(driver, options, {{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, {12, 13}}, /*steps=*/20);
  return allocations;
}

TEST(AllocationCounter, SeesTheHeapBeingUsed) {
  allocations = 0;
  counting = true;
  { const std::vector<int> block(1000); }
  counting = false;
  EXPECT_GE(allocations, 1);
}

TEST(AllocationCounter, SeesWhatALoadedModuleAllocates) { EXPECT_GT(allocations_in_run(reference_backend(), 1), 0); }

TEST(EveryBackendForUsers, AllocatesNothingInAStep) {
  for (const BackendUnderTest& backend : backends_under_test()) {
    if (backend.allocates_in_run) continue;
    for (const int threads : {1, 2}) {
      EXPECT_EQ(allocations_in_run(backend, threads), 0) << backend.name << ", " << threads << " threads";
    }
  }
}

}  // namespace
}  // namespace lockstep::conformance
