// Loading weights with several threads into a GPU's memory.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <mutex>

#include "runtime/backends/cuda/backend.h"
#include "runtime/backends/cuda/store.h"
#include "runtime/backends/cuda/weight_loading.h"
#include "tests/conformance/backend/tiny_model.h"
#include "tests/cuda_stand_in/driver_under_test.h"
#include "tests/cuda_stand_in/libcuda.h"

namespace lockstep::conformance {
namespace {

using testing::Each;

/// Weights in memory; counts the reads of each row.
class Source final : public device::WeightReader {
 public:
  explicit Source(const Contents& contents) : contents_(contents) {}

  Result<void> read(const graph::Value& weight, Range rows, std::span<std::byte> dst) const override {
    if (weight.name == damaged) return Error{ErrorKind::kInvalidArgument, "[test] row 5 is damaged"};
    const TensorData& data = contents_.find(weight.name)->second;
    const size_t row = data.bytes.size() / static_cast<size_t>(device::rows_of(weight).size());
    std::memcpy(dst.data(), data.bytes.data() + static_cast<size_t>(rows.begin) * row, dst.size());
    const std::lock_guard lock(mutex_);
    most_bytes = std::max(most_bytes, dst.size());
    if (on_read) on_read();
    std::vector<int>& reads = reads_of[weight.name];
    reads.resize(static_cast<size_t>(device::rows_of(weight).size()));
    for (int64_t i = rows.begin; i < rows.end; ++i) ++reads[static_cast<size_t>(i)];
    return ok();
  }
  Result<void> read_codes(const graph::Value& weight, const ColumnGroups& groups, Range rows,
                          CodedRows dst) const override {
    const auto row_bytes = static_cast<size_t>(groups.columns) * size_of(weight.type.dtype);
    std::vector<std::byte> elements(static_cast<size_t>(rows.size()) * row_bytes);
    LOCKSTEP_TRY_VOID(read(weight, rows, elements));
    cuda::quantise_rows({.groups = groups, .format = *weight.format}, weight.type.dtype, rows.size(), elements, dst);
    return ok();
  }
  int64_t rows_at_once(const graph::Value&) const override { return 1; }
  int64_t place_of(const graph::Value& weight) const override { return -static_cast<int64_t>(weight.name.size()); }
  void expect(const graph::Value&, Range) const override {}

  std::string damaged;
  std::function<void()> on_read;  // one at a time
  mutable size_t most_bytes = 0;
  mutable std::map<std::string, std::vector<int>> reads_of;

 private:
  const Contents& contents_;
  mutable std::mutex mutex_;
};

/// Matrices in every form: fragments, leaves, codes, rows, and one that is larger than a buffer.
Case many_forms() {
  constexpr int64_t kColumns = 300;
  CaseBuilder b({.name = "forms", .ranks = 1, .rank = 0, .rows = 2, .slots = 1});
  const auto random = [](Shape shape, uint64_t seed) {
    return random_tensor({DType::kBFloat16, std::move(shape)}, seed);
  };
  const graph::ValueId x = b.input("x", random({2, kColumns}, 1));
  const graph::ValueId norm = b.builder.rms_norm(x, b.weight("norm", random({kColumns}, 2)), 1e-5);
  b.builder.output("a", b.builder.linear(norm, b.weight("large", random({3000, kColumns}, 3))));
  const graph::ValueId eighth = b.weight("eighth", random({37, kColumns}, 4), WeightFormat{.bits = 8, .group = 16});
  b.builder.output("b", b.builder.linear(x, eighth, std::nullopt, std::nullopt, graph::Activations::kInt8));
  const graph::ValueId leaves = b.weight("leaves", random({1000, kColumns}, 5));
  b.builder.output("c", b.builder.linear_blocks(x, leaves, BlockSplit{{0, 5}}, 60));
  const graph::ValueId coded = b.weight("coded", random({1000, kColumns}, 5), WeightFormat{.bits = 8, .group = 20});
  b.builder.output("d", b.builder.linear_blocks(x, coded, BlockSplit{{0, 5}}, 60, graph::Activations::kInt8));
  const WeightFormat format{.bits = 4, .group = 32, .offset = GroupOffset::kZeros, .scale = ScaleType::kFloat16};
  const graph::ValueId table = b.weight("table", random({90, kColumns}, 6), format);
  b.builder.output("e", b.builder.embedding(b.input("ids", int_tensor({2}, {3, 89})), table, 0));
  return std::move(b).finish();
}

std::unique_ptr<device::Backend> backend_of(int threads) {
  return cuda::make_backend({.driver = cu::driver_under_test(LOCKSTEP_STAND_IN_CUDA), .host_threads = threads}).value();
}

/// The weights of a store as the device has them. The stand-in's device memory is the host's.
std::vector<std::byte> bytes_of(const device::Store& store) {
  const auto& own = dynamic_cast<const cuda::Store&>(store);
  const auto* begin = reinterpret_cast<const std::byte*>(own.weights().value);
  std::vector<std::byte> all;
  for (const auto& [name, weight] : own.layout().weights) {
    for (const cuda::WeightForm& form : weight.forms) {
      int64_t bytes = weight.type.bytes();
      if (const auto* stack = std::get_if<cuda::StackedPacking>(&form.packing)) bytes = stack->bytes();
      if (const auto* codes = std::get_if<cuda::CodedPacking>(&form.packing)) bytes = codes->bytes();
      all.insert(all.end(), begin + form.offset, begin + form.offset + bytes);
    }
  }
  return all;
}

using Counts = cu::StandInCounts (*)();

/// Null for a real driver.
Counts stand_in_counts() {
  void* library = dlopen(cu::driver_under_test(LOCKSTEP_STAND_IN_CUDA).c_str(), RTLD_NOW);
  return library == nullptr ? nullptr : reinterpret_cast<Counts>(dlsym(library, "lockstep_stand_in_cuda_counts"));
}

TEST(CudaLoading, GivesTheBytesOfWeightsThatAreSetWithEveryNumberOfThreads) {
  if (stand_in_counts() == nullptr) GTEST_SKIP() << "reads device memory as the host's";
  const TinyRank tiny = make_tiny_rank({.second_layer = SecondLayer::kWindowAndExperts}, 0);
  const Case forms = many_forms();
  const std::vector<std::pair<const graph::Graph*, const Contents*>> models = {{&forms.graph, &forms.contents},
                                                                               {&tiny.graphs[0], &tiny.contents}};
  for (const auto& [graph, contents] : models) {
    const device::StepGraph step(*graph);
    const auto setter = backend_of(1);
    const auto set = setter->make_store({&step, 1}).value();
    for (const auto& [name, data] : *contents) {
      const auto id = graph->find(name);
      if (id && graph->value(*id).kind == graph::ValueKind::kWeight) set->set_weight(name, data.bytes).value();
    }
    for (const int threads : {1, 3}) {
      const auto backend = backend_of(threads);
      const auto loaded = backend->make_store({&step, 1}).value();
      const Source source(*contents);
      loaded->load(*graph, source).value();
      EXPECT_EQ(bytes_of(*loaded), bytes_of(*set)) << threads;
      for (const auto& [name, reads] : source.reads_of) EXPECT_THAT(reads, Each(1)) << name;
    }
  }
}

TEST(CudaLoading, KeepsAFewBuffersOfTheHostWhateverTheWeightsSize) {
  const Counts counts = stand_in_counts();
  if (counts == nullptr) GTEST_SKIP() << "this driver does not count";
  const Case forms = many_forms();
  const device::StepGraph step(forms.graph);
  const auto backend = backend_of(2);
  const auto store = backend->make_store({&step, 1}).value();
  Source source(forms.contents);
  const auto& layout = dynamic_cast<const cuda::Store&>(*store).layout();
  std::vector<cuda::WeightPlace> places;
  for (const graph::ValueId id : forms.graph.values_of(graph::ValueKind::kWeight)) {
    places.push_back({&forms.graph.value(id), &layout.weights.find(forms.graph.value(id).name)->second});
  }
  EXPECT_EQ(cuda::pinned_bytes_of_thread(places), 2 << 20);
  const int64_t before = counts().pinned_bytes;
  int64_t most = 0;
  source.on_read = [&] { most = std::max(most, counts().pinned_bytes); };
  store->load(forms.graph, source).value();
  EXPECT_EQ(counts().pinned_bytes, before);
  EXPECT_GT(most, before);
  EXPECT_LE(most, before + 2 * cuda::pinned_bytes_of_thread(places));
  EXPECT_LE(source.most_bytes, size_t{1} << 20);  // of 1.8 MB
}

TEST(CudaLoading, FailsWithTheReadersErrorAndLeavesNothing) {
  const Case forms = many_forms();
  const device::StepGraph step(forms.graph);
  const auto backend = backend_of(3);
  const auto store = backend->make_store({&step, 1}).value();
  Source source(forms.contents);
  source.damaged = "large";
  const Counts counts = stand_in_counts();
  const int64_t before = counts == nullptr ? 0 : counts().allocations;
  const Result<void> loaded = store->load(forms.graph, source);
  ASSERT_FALSE(loaded.has_value());
  EXPECT_EQ(loaded.error().message, "[test] row 5 is damaged");
  if (counts != nullptr) {
    EXPECT_EQ(counts().allocations, before);
  }
  const auto executable = backend->compile(step, *store, {}).value();
  EXPECT_EQ(executable->run(inputs_in_order(forms.graph, forms.inputs)).error().kind, ErrorKind::kFailedPrecondition);
}

}  // namespace
}  // namespace lockstep::conformance
