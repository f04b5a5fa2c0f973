// A step makes no allocation. This program replaces operator new and counts.
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <vector>

#include "tests/conformance/backend/drawing.h"
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

/// A step of two drafted rows for each of two slots through operations that the two-layer model does not use.
Case step_of_other_operations() {
  using graph::ValueId;
  CaseBuilder b({.name = "verify", .ranks = 1, .rank = 0, .rows = 4, .slots = 2});
  const auto random = [&](const char* name, Shape shape, uint64_t seed) {
    return b.weight(name, random_tensor({DType::kFloat32, std::move(shape)}, seed));
  };
  const auto ints = [&](const char* name) { return b.state(name, int_tensor({2}, {1, 1})); };
  const ValueId ids = b.input("ids", int_tensor({4}, {1, 2, 3, 0}));
  const ValueId slot = b.input("slot", int_tensor({4}, {0, 0, 1, -1}));
  const ValueId position = b.builder.clamp_positions(b.input("position", int_tensor({4}, {1, 2, 1, 0})), 9);
  ValueId x = b.builder.lookup(ids, random("table", {12, 8}, 1), 2);
  x = b.builder.scale(b.builder.layer_norm(x, random("norm", {8}, 2), random("bias", {8}, 3), 1e-5), 2);
  x = b.builder.rms_norm(x, random("head_norm", {4}, 4), 1e-5, /*heads=*/2, /*offset=*/1);
  const ValueId frequencies = b.builder.constant("f", {1.0f, 0.1f});
  x = b.builder.rope({x, position, frequencies, frequencies, ints("is_long"), slot}, 2, 1.0, "neighbours");
  const ValueId keys = b.cache("kv.0.k", {DType::kFloat32, {2, 2, 5, 4}});
  const ValueId values = b.cache("kv.0.v", {DType::kFloat32, {2, 2, 5, 4}});
  for (const ValueId cache : {keys, values}) b.builder.kv_append(x, cache, slot, position, /*window=*/3, /*pinned=*/1);
  graph::AttentionOptions options{.head_map = {0, 1}, .scale = 0.5, .kernel = "decode", .window = 3, .pinned = 1};
  options.soft_cap = 20;
  options.sinks = random("sinks", {2}, 5);
  options.pinned_q = x;
  x = b.builder.activation(b.builder.attention(x, keys, values, slot, position, options), "gelu");
  const ValueId route = b.builder.moe_route(b.builder.linear(x, random("router", {3, 8}, 6)), {.chosen = 2});
  const BlockSplit leaves{{0, 2}};
  const ValueId roots = b.builder.moe_experts(
      {x, route, random("gate", {18, 8}, 7), random("up", {18, 8}, 8), random("down", {24, 6}, 9)},
      {.experts = {0, 3}, .split = leaves, .block = 4, .activation = "silu"});
  x = b.builder.columns(b.builder.all_reduce(b.builder.join_partials(roots, roots), leaves, DType::kFloat32), {4, 12});
  const ValueId logits = b.builder.soft_cap(b.builder.linear(x, random("head", {10, 8}, 10)), 30);
  std::vector<ValueId> operands{logits,
                                ids,
                                slot,
                                ints("length"),
                                ints("last_id"),
                                ints("output_index"),
                                b.state("finished", zeros({DType::kInt32, {2}})),
                                b.state("seen", zeros({DType::kUInt8, {2, 10}}))};
  for (const ValueId id : add_drawing_states(b, {plain_rule(), plain_rule()})) operands.push_back(id);
  b.builder.output("tokens", b.builder.accept(std::move(operands)));
  return std::move(b).finish();
}

int allocations_in_other_operations(const BackendUnderTest& backend, int threads) {
  const Case c = step_of_other_operations();
  Session session(backend, {c.graph}, nullptr, threads);
  session.set(c.contents);
  const std::vector<device::HostTensor> inputs = inputs_in_order(c.graph, c.inputs);
  allocations = 0;
  for (int i = 0; i < 3; ++i) {
    counting = true;
    const bool ran = session.executable(0).run(inputs).has_value();
    counting = false;
    EXPECT_TRUE(ran);
  }
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
      EXPECT_EQ(allocations_in_other_operations(backend, threads), 0) << backend.name << ", " << threads << " threads";
    }
  }
}

}  // namespace
}  // namespace lockstep::conformance
