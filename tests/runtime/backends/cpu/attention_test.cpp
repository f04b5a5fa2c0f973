#include "runtime/backends/cpu/attention.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "tests/runtime/backends/cpu/product_fixture.h"

namespace lockstep::cpu {
namespace {

/// Two slots of a small cache, filled with random tokens, and queries over them.
struct AttentionFixture {
  const Kernels& kernels;
  DType dtype;
  int64_t head_dim = 24;  // neither whole strips nor a power of two
  int64_t capacity = 200;
  std::vector<int64_t> head_map = {0, 0, 0, 1, 1};  // unequal groups
  static constexpr int64_t kSlots = 2, kCacheHeads = 2;

  std::vector<float> k = random_numbers(kSlots * capacity * kCacheHeads * head_dim, 11);
  std::vector<float> v = random_numbers(kSlots * capacity * kCacheHeads * head_dim, 12);
  CacheLayout keys = make_cache(CacheRole::kKeys);
  CacheLayout values = make_cache(CacheRole::kValues);
  std::vector<std::byte> key_memory = fill(keys, k);
  std::vector<std::byte> value_memory = fill(values, v);

  int64_t columns() const { return static_cast<int64_t>(head_map.size()) * head_dim; }
  float scale() const { return 1.0f / std::sqrt(static_cast<float>(head_dim)); }

  CacheLayout make_cache(CacheRole role) const {
    CacheLayout cache{.role = role,
                      .dtype = dtype,
                      .pairs = role == CacheRole::kKeys && kernels.bf16_pairs && dtype == DType::kBFloat16,
                      .slots = kSlots,
                      .heads = kCacheHeads,
                      .capacity = capacity,
                      .head_dim = head_dim};
    cache.block_stride = kCacheHeads * cache.tile_bytes();
    cache.slot_stride = cache.blocks() * cache.block_stride;
    return cache;
  }

  std::vector<std::byte> fill(CacheLayout& cache, const std::vector<float>& tokens) const {
    std::vector<std::byte> memory(static_cast<size_t>(kSlots * cache.slot_stride));
    cache.base = memory.data();
    write(cache, tokens);
    return memory;
  }

  void write(const CacheLayout& cache, const std::vector<float>& tokens) const {
    const std::vector<std::byte> rows = encode(tokens, dtype);
    const auto row_bytes = static_cast<int64_t>(kCacheHeads * head_dim * size_of(dtype));
    for (int64_t slot = 0; slot < kSlots; ++slot) {
      for (int64_t at = 0; at < capacity; ++at) {
        cache.write(slot, at, 0, kCacheHeads, rows.data() + (slot * capacity + at) * row_bytes);
      }
    }
  }

  /// f32 [rows, columns]: what queries numbered `seeds[row]` find at (slot, position); `task_rows` as compiled for.
  std::vector<float> run(const std::vector<int32_t>& slot, const std::vector<int32_t>& position,
                         int workers = 1) const {
    const auto rows = static_cast<int64_t>(slot.size());
    std::vector<float> queries;
    for (int64_t row = 0; row < rows; ++row) {
      const std::vector<float> q = query(slot[row], position[row]);
      queries.insert(queries.end(), q.begin(), q.end());
    }
    std::vector<std::byte> q_bytes = encode(queries, dtype);
    std::vector<float> result(queries.size(), -77.0f);
    AttentionTask task = AttentionTask::make(kernels, keys, values, head_map, rows);
    task.q = {.data = q_bytes.data(), .dtype = dtype, .rows = rows, .columns = columns()};
    task.q.stride = columns() * task.q.element_size();
    task.result = {.data = reinterpret_cast<std::byte*>(result.data()), .rows = rows, .columns = columns()};
    task.result.stride = columns() * 4;
    task.slot = slot.data();
    task.position = position.data();
    task.scale = scale();
    std::vector<float> scratch(static_cast<size_t>(task.private_bytes() / 4), __builtin_nanf(""));
    for (int worker = 0; worker < workers; ++worker) {
      task.run(reinterpret_cast<std::byte*>(scratch.data()), {worker, workers});
    }
    return result;
  }

  /// The query of a token depends on the token alone.
  std::vector<float> query(int32_t slot, int32_t position) const {
    return random_numbers(columns(), static_cast<uint32_t>(100 + slot * 1000 + position));
  }

  /// Attention of one token and head in double precision.
  std::vector<double> exact(int32_t slot, int32_t position, int64_t head) const {
    const std::vector<float> q = query(slot, position);
    const auto token = [&](const std::vector<float>& from, int64_t at) {
      return from.data() + ((slot * capacity + at) * kCacheHeads + head_map[head]) * head_dim;
    };
    std::vector<double> weights, result(static_cast<size_t>(head_dim));
    double total = 0;
    for (int64_t at = 0; at <= position; ++at) {
      double score = 0;
      for (int64_t d = 0; d < head_dim; ++d) score += double{q[head * head_dim + d]} * token(k, at)[d];
      weights.push_back(std::exp(score * scale()));
      total += weights.back();
    }
    for (int64_t at = 0; at <= position; ++at) {
      for (int64_t d = 0; d < head_dim; ++d) result[d] += weights[at] / total * token(v, at)[d];
    }
    return result;
  }
};

class Attention : public ::testing::TestWithParam<std::tuple<Isa, DType>> {
 protected:
  AttentionFixture fixture() const { return {kernels_for(std::get<0>(GetParam())), std::get<1>(GetParam())}; }
};

INSTANTIATE_TEST_SUITE_P(EveryIsa, Attention,
                         ::testing::Combine(::testing::ValuesIn(available_isas()),
                                            ::testing::Values(DType::kFloat32, DType::kBFloat16, DType::kFloat16)),
                         [](const auto& test) {
                           return std::string(to_string(std::get<0>(test.param))) + "_" +
                                  std::string(lockstep::to_string(std::get<1>(test.param)));
                         });

/// The rows of a prompt at positions [begin, end) of `slot`.
void add_rows(int32_t of_slot, int32_t begin, int32_t end, std::vector<int32_t>& slot, std::vector<int32_t>& position) {
  for (int32_t at = begin; at < end; ++at) {
    slot.push_back(of_slot);
    position.push_back(at);
  }
}

TEST_P(Attention, IsTheWeightedMeanOfTheValues) {
  const AttentionFixture attention = fixture();
  const std::vector<int32_t> position = {0, 1, 15, 16, 63, 64, 65, 127, 128, 199};
  const std::vector<int32_t> slot(position.size(), 1);
  const std::vector<float> found = attention.run(slot, position);
  for (size_t row = 0; row < position.size(); ++row) {
    for (int64_t head = 0; head < 5; ++head) {
      const std::vector<double> exact = attention.exact(1, position[row], head);
      for (int64_t d = 0; d < attention.head_dim; ++d) {
        // Values lie in [-1, 1]; scores and weights are float32 with errors of a few 2^-24 times their length.
        ASSERT_NEAR(found[row * attention.columns() + head * attention.head_dim + d], exact[d], 4e-6)
            << "position " << position[row] << " head " << head;
      }
    }
  }
}

TEST_P(Attention, GivesATokenTheSameBitsInEveryChunkAndBatch) {
  const AttentionFixture attention = fixture();
  std::vector<int32_t> slot, position;
  add_rows(0, 0, 150, slot, position);
  const std::vector<float> whole = attention.run(slot, position);
  const auto row_of = [&](const std::vector<float>& rows, int64_t row) {
    return std::vector<float>(rows.begin() + row * attention.columns(), rows.begin() + (row + 1) * attention.columns());
  };
  for (int32_t at : {0, 1, 62, 63, 64, 100, 127, 128, 149}) {
    EXPECT_EQ(row_of(attention.run({0}, {at}), 0), row_of(whole, at)) << "alone at " << at;
    // Beside another slot, padding, and tokens out of order.
    EXPECT_EQ(row_of(attention.run({1, -1, 0, 0}, {190, 0, at, 5}), 2), row_of(whole, at)) << "in a batch at " << at;
  }
  std::vector<int32_t> chunk_slot, chunk_position;
  add_rows(0, 57, 140, chunk_slot, chunk_position);
  const std::vector<float> chunk = attention.run(chunk_slot, chunk_position);
  for (int32_t at = 57; at < 140; ++at) EXPECT_EQ(row_of(chunk, at - 57), row_of(whole, at)) << "in a chunk at " << at;
}

TEST_P(Attention, GivesTheSameBitsWhateverTheWorkers) {
  const AttentionFixture attention = fixture();
  std::vector<int32_t> slot, position;
  add_rows(1, 40, 135, slot, position);
  const std::vector<float> alone = attention.run(slot, position);
  for (int workers : {2, 3, 5, 64}) EXPECT_EQ(attention.run(slot, position, workers), alone) << workers;
}

TEST_P(Attention, NeverLetsWhatLiesBehindATokenIn) {
  AttentionFixture attention = fixture();
  std::vector<int32_t> slot, position;
  add_rows(0, 30, 90, slot, position);
  const std::vector<float> before = attention.run(slot, position);
  // What an earlier sequence left, or a later token of this one: a NaN times a weight of zero would be a NaN.
  const int64_t first_garbage = 90 * AttentionFixture::kCacheHeads * attention.head_dim;
  for (int64_t i = first_garbage; i < attention.capacity * AttentionFixture::kCacheHeads * attention.head_dim; ++i) {
    attention.k[i] = std::numeric_limits<float>::quiet_NaN();
    attention.v[i] = std::numeric_limits<float>::infinity();
  }
  attention.write(attention.keys, attention.k);
  attention.write(attention.values, attention.v);
  EXPECT_EQ(attention.run(slot, position), before);
}

TEST_P(Attention, KeepsANanOfTheCacheInTheRowsThatReadIt) {
  AttentionFixture attention = fixture();
  const int64_t token_size = AttentionFixture::kCacheHeads * attention.head_dim;
  attention.v[70 * token_size] = std::numeric_limits<float>::quiet_NaN();  // slot 0, position 70, head 0, dimension 0
  attention.write(attention.values, attention.v);
  std::vector<int32_t> slot, position;
  add_rows(0, 60, 80, slot, position);
  const std::vector<float> found = attention.run(slot, position);
  for (int32_t at = 60; at < 80; ++at) {
    EXPECT_EQ(std::isnan(found[(at - 60) * attention.columns()]), at >= 70) << at;
    EXPECT_FALSE(std::isnan(found[(at - 60) * attention.columns() + 1])) << at;
  }
}

TEST(CacheLayout, ReadsWhatWasWritten) {
  for (const bool pairs : {false, true}) {
    for (const CacheRole role : {CacheRole::kKeys, CacheRole::kValues}) {
      CacheLayout cache{.role = role,
                        .dtype = DType::kBFloat16,
                        .pairs = pairs,
                        .slots = 1,
                        .heads = 2,
                        .capacity = 100,
                        .head_dim = 5};
      cache.block_stride = 2 * cache.tile_bytes();
      cache.slot_stride = cache.blocks() * cache.block_stride;
      std::vector<std::byte> memory(static_cast<size_t>(cache.slot_stride));
      cache.base = memory.data();
      std::vector<uint16_t> token(10), read(5);
      for (uint16_t at = 0; at < 100; ++at) {
        for (uint16_t i = 0; i < 10; ++i) token[i] = static_cast<uint16_t>(at * 10 + i);
        cache.write(0, at, 0, 2, reinterpret_cast<const std::byte*>(token.data()));
      }
      for (uint16_t at = 0; at < 100; ++at) {
        cache.read(0, at, 1, reinterpret_cast<std::byte*>(read.data()));
        for (uint16_t d = 0; d < 5; ++d) EXPECT_EQ(read[d], at * 10 + 5 + d);
      }
    }
  }
}

}  // namespace
}  // namespace lockstep::cpu
