// Tests of loading whole models from files into the CPU backend's store.
#include "shards/weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>

#include "runtime/backends/cpu/cpu.h"
#include "runtime/checkpoint/stored_tensors.h"
#include "runtime/graph/passes.h"
#include "shards/shard_graphs.h"
#include "tests/model/stored_tensor.h"
#include "tests/shards/small_llama.h"
#include "tests/temporary_directory.h"

namespace lockstep::shards {
namespace {

using ::testing::HasSubstr;

const ShardOptions kOptions{.slots = 1, .chunk = 4, .capacity = 16, .dtype = DType::kBFloat16};

checkpoint::ModelSpec small_spec() {
  checkpoint::ModelSpec spec = spec_of(
      {.hidden = 64, .query_heads = 4, .key_value_heads = 2, .intermediate = 256, .vocabulary = 512, .positions = 64});
  spec.tied_embeddings = true;
  return spec;
}

/// The same in every graph of every degree.
std::map<std::string, Shape> tensors_of(const checkpoint::ModelSpec& spec) {
  return build_graphs(spec, partition::make_partition(spec, 1).value(), 0, kOptions, {}).value().tensors;
}

/// A model directory with every tensor of `spec`, in bfloat16.
class WrittenModel {
 public:
  explicit WrittenModel(const checkpoint::ModelSpec& spec) {
    std::vector<model::StoredTensor> tensors;
    uint16_t next = 0x3c00;
    for (const auto& [name, shape] : tensors_of(spec)) {
      std::vector<std::byte> bytes(static_cast<size_t>(shape.elements()) * 2);
      for (size_t i = 0; i < bytes.size(); i += 2) {
        next = static_cast<uint16_t>(0x3c00 + (next + 1) % 0x300);
        std::memcpy(&bytes[i], &next, 2);
      }
      tensors.push_back({name, {DType::kBFloat16, shape}, std::move(bytes)});
    }
    model::write_safetensors(file(), tensors);
  }
  std::filesystem::path file() const { return directory_.path() / "model.safetensors"; }
  const std::filesystem::path& path() const { return directory_.path(); }
  int64_t bytes() const { return static_cast<int64_t>(std::filesystem::file_size(file())); }

 private:
  TemporaryDirectory directory_;
};

/// Zeros, stored in the reverse order of their names; records the reads.
class ReversedWeights final : public WeightSource {
 public:
  explicit ReversedWeights(const std::map<std::string, Shape>& tensors) {
    for (const auto& [name, shape] : tensors) place_.emplace(name, std::ssize(tensors) - std::ssize(place_));
  }
  Result<void> read(const std::string& tensor, const Shape&, std::span<const Range>, DType,
                    std::span<std::byte> dst) const override {
    std::ranges::fill(dst, std::byte{0});
    if (names_read.empty() || names_read.back() != tensor) names_read.push_back(tensor);
    return ok();
  }
  int64_t place_of(const std::string& tensor) const override { return place_.at(tensor); }

  mutable std::vector<std::string> names_read;

 private:
  std::map<std::string, int64_t> place_;
};

/// A checkpoint wrapper that counts announced reads.
class Announced final : public checkpoint::Checkpoint {
 public:
  explicit Announced(const checkpoint::Checkpoint& inner) : inner_(inner) {}
  const checkpoint::TensorMap& tensors() const override { return inner_.tensors(); }
  Result<void> read(std::string_view name, const Shape& expected, std::span<const Range> ranges, DType dtype,
                    std::span<std::byte> dst) const override {
    return inner_.read(name, expected, ranges, dtype, dst);
  }
  Result<void> read_codes(std::string_view name, const Shape& expected, Range rows, Range columns,
                          CodedRows dst) const override {
    return inner_.read_codes(name, expected, rows, columns, dst);
  }
  int64_t rows_at_once(std::string_view name) const override { return inner_.rows_at_once(name); }
  int64_t place_of(std::string_view name) const override { return inner_.place_of(name); }
  void expect(std::string_view, std::span<const Range>) const override { ++announcements; }
  uint64_t fingerprint() const override { return inner_.fingerprint(); }
  int64_t bytes_read() const override { return inner_.bytes_read(); }
  int64_t bytes_of_files() const override { return inner_.bytes_of_files(); }

  mutable int announcements = 0;

 private:
  const checkpoint::Checkpoint& inner_;
};

/// A rank's weights of a written model, and the reads for them. `sums` may be null.
struct Loaded {
  Loaded(const checkpoint::Checkpoint& checkpoint, int ranks, int rank, int threads, PartSums* sums = nullptr)
      : graphs(build_graphs(small_spec(), partition::make_partition(small_spec(), ranks).value(), rank, kOptions,
                            graph::default_passes())
                   .value()),
        backend(cpu::make_backend({.threads = threads}).value()),
        store(backend->make_store(graphs.steps()).value()),
        outcome(load_weights(graphs.decode.front(), graphs.tensors, CheckpointWeights(checkpoint), *store, sums)) {}

  ShardGraphs graphs;
  std::unique_ptr<device::Backend> backend;
  std::unique_ptr<device::Store> store;
  Result<void> outcome;
};

std::unique_ptr<checkpoint::Checkpoint> open(const WrittenModel& model) {
  return checkpoint::open_model_checkpoint(model.path(), small_spec()).value();
}

TEST(LoadWeights, ReadsEveryByteOfTheFileOnceOnOneRank) {
  const WrittenModel model(small_spec());
  for (const int threads : {1, 3}) {
    const auto checkpoint = open(model);
    ASSERT_TRUE(Loaded(*checkpoint, 1, 0, threads).outcome.has_value());
    EXPECT_EQ(checkpoint->bytes_read(), model.bytes());
    EXPECT_EQ(checkpoint->bytes_of_files(), model.bytes());
  }
}

TEST(LoadWeights, ReadsHardlyMoreThanHalfOfTheFileOnEachOfTwoRanks) {
  const WrittenModel model(small_spec());
  for (const int rank : {0, 1}) {
    const auto checkpoint = open(model);
    ASSERT_TRUE(Loaded(*checkpoint, 2, rank, 2).outcome.has_value());
    EXPECT_LE(static_cast<double>(checkpoint->bytes_read()), 0.55 * static_cast<double>(model.bytes()));
  }
}

TEST(LoadWeights, ReadsTensorsInTheOrderOfTheFiles) {
  const auto graphs = build_graphs(small_spec(), partition::make_partition(small_spec(), 1).value(), 0, kOptions,
                                   graph::default_passes())
                          .value();
  const auto backend = cpu::make_backend({.threads = 1}).value();
  const auto store = backend->make_store(graphs.steps()).value();
  const ReversedWeights weights(graphs.tensors);
  ASSERT_TRUE(load_weights(graphs.decode.front(), graphs.tensors, weights, *store).has_value());
  std::vector<std::string> first_of_each;  // of a weight that holds several tensors, its place is that of the first
  for (const std::string& name : weights.names_read) {
    if (name.ends_with("norm.weight") || name.ends_with("o_proj.weight")) first_of_each.push_back(name);
  }
  EXPECT_GE(first_of_each.size(), 4u);
  EXPECT_TRUE(std::ranges::is_sorted(first_of_each, std::greater<>()));
}

TEST(LoadWeights, AnnouncesWhatNobodyReadsAhead) {
  const WrittenModel model(small_spec());
  const auto stored = open(model);
  const Announced checkpoint(*stored);
  const std::vector<Range> ranges = {{0, 1}, {0, 1}};
  CheckpointWeights(checkpoint, Fetching::kReadAhead).expect("model.embed_tokens.weight", ranges);
  EXPECT_EQ(checkpoint.announcements, 0);
  CheckpointWeights(checkpoint).expect("model.embed_tokens.weight", ranges);
  EXPECT_EQ(checkpoint.announcements, 1);
}

TEST(LoadWeights, SumsWhatItReadsWithEveryNumberOfThreadsAndRanks) {
  const WrittenModel model(small_spec());
  const auto checkpoint = open(model);
  const checkpoint::WeightSums expected = checkpoint::sum_weights(*checkpoint, 2).value();
  const auto tensors = tensors_of(small_spec());
  for (const int ranks : {1, 2, 3}) {
    std::vector<std::vector<TensorPart>> parts;
    for (int rank = 0; rank < ranks; ++rank) {
      const auto graphs = build_graphs(small_spec(), partition::make_partition(small_spec(), ranks).value(), rank,
                                       kOptions, graph::default_passes())
                              .value();
      parts.push_back(parts_of(graphs.decode.front(), tensors));
    }
    const auto pieces = cut_parts(parts);
    SummedModel summed{tensors, pieces, {}};
    for (int rank = 0; rank < ranks; ++rank) {
      const auto& own = pieces[static_cast<size_t>(rank)];
      PartSums sums(own, std::vector<bool>(own.size(), true));
      ASSERT_TRUE(Loaded(*checkpoint, ranks, rank, 1 + rank, &sums).outcome.has_value());
      summed.sums.push_back(sums.values());
    }
    const SumComparison found = compare_sums(summed, &expected);
    EXPECT_EQ(found.verified, std::ssize(tensors)) << ranks;
    EXPECT_FALSE(found.suspect);
  }
}

TEST(LoadWeights, SaysWhereAFileEndsThatBecameShorter) {
  const WrittenModel model(small_spec());
  const auto checkpoint = open(model);
  std::filesystem::resize_file(model.file(), static_cast<uintmax_t>(model.bytes() - 1000));
  const auto loaded = Loaded(*checkpoint, 1, 0, 3).outcome;
  ASSERT_FALSE(loaded.has_value());
  EXPECT_EQ(loaded.error().kind, ErrorKind::kInvalidArgument);
  EXPECT_THAT(loaded.error().message, HasSubstr("the file is truncated, fetch it again"));
}

}  // namespace
}  // namespace lockstep::shards
