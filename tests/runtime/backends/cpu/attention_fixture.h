// Attention run directly on its task, over caches that hold random tokens.
#pragma once

#include <cmath>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/backends/cpu/attention.h"
#include "runtime/backends/cpu/row_encoder.h"
#include "tests/runtime/backends/cpu/product_fixture.h"

namespace lockstep::cpu {

/// Rows of a step.
struct AttentionRows {
  std::vector<int32_t> slot;
  std::vector<int32_t> position;

  /// Adds positions [begin, end) of a slot.
  void add(int32_t of_slot, int32_t begin, int32_t end) {
    for (int32_t at = begin; at < end; ++at) {
      slot.push_back(of_slot);
      position.push_back(at);
    }
  }
};

/// The parameters of a fixture. A cache is a ring if `ring_rows` is set.
struct AttentionSetup {
  int64_t tokens = 200;   // of each slot that have keys and values
  int64_t head_dim = 24;  // neither whole strips nor a power of two
  int64_t window = 0;     // 0: none
  int64_t pinned = 0;
  float soft_cap = 0;
  bool has_sinks = false;
  bool has_slopes = false;
  int64_t ring_rows = 0;
  bool is_flat = false;             // every q · k counts as 0: the weights are known exactly
  std::optional<DType> codes = {};  // of caches in 8 bits
  std::byte memory{0};              // initial content of the caches; 0xff is NaN in every type
};

/// Two slots of a small cache, random tokens, and queries that depend on the token alone.
class AttentionFixture {
 public:
  static constexpr int64_t kSlots = 2, kCacheHeads = 2;
  const std::vector<int64_t> head_map = {0, 0, 0, 1, 1};  // unequal groups

  /// With a ring nothing is appended yet.
  AttentionFixture(const Kernels& kernels, DType dtype, const AttentionSetup& setup = {})
      : kernels_(kernels), dtype_(dtype), setup_(setup) {
    k = random_numbers(kSlots * setup.tokens * kCacheHeads * setup.head_dim, 11);
    v = random_numbers(kSlots * setup.tokens * kCacheHeads * setup.head_dim, 12);
    written_.resize(static_cast<size_t>(2 * kSlots * setup.ring_rows));
    keys_ = make_cache(CacheRole::kKeys, key_memory_);
    values_ = make_cache(CacheRole::kValues, value_memory_);
    keys_.written = written_.data();
    values_.written = written_.data() + kSlots * setup.ring_rows;
    rule_.scale = setup.is_flat ? 0.0f : 1.0f / std::sqrt(static_cast<float>(setup.head_dim));
    if (setup.window > 0) rule_.window = setup.window;
    rule_.pinned = setup.pinned;
    rule_.soft_cap = setup.soft_cap;
    for (int64_t slot = 0; setup.ring_rows == 0 && slot < kSlots; ++slot) append(slot, {0, setup.tokens});
  }
  AttentionFixture(const AttentionFixture&) = delete;
  AttentionFixture& operator=(const AttentionFixture&) = delete;

  std::vector<float> k, v;  // [slots, tokens, heads, head_dim]; `append` writes them

  int64_t head_dim() const { return setup_.head_dim; }
  int64_t columns() const { return static_cast<int64_t>(head_map.size()) * setup_.head_dim; }
  int64_t token_size() const { return kCacheHeads * setup_.head_dim; }

  /// In 8 bits `k` and `v` become what the codes stand for.
  void append(int64_t slot, Range positions) {
    if (setup_.codes) return append_codes(slot, positions);
    for (auto [tokens, cache] : {std::pair{&k, &keys_}, {&v, &values_}}) {
      const std::vector<std::byte> rows = encode(*tokens, dtype_);
      const auto row_bytes = token_size() * static_cast<int64_t>(size_of(dtype_));
      for (int64_t at = positions.begin; at < positions.end; ++at) {
        cache->write(slot, at, 0, kCacheHeads, rows.data() + (slot * setup_.tokens + at) * row_bytes);
      }
    }
  }

  AttentionTask task(int64_t rows) const {
    AttentionTask task = AttentionTask::make(kernels_, keys_, values_, head_map);
    task.rule = rule_;
    task.block_for_prefill(rows);
    return task;
  }

  /// f32 [rows, columns]: the results of the queries of these rows.
  std::vector<float> run(const AttentionRows& rows, int workers = 1) const {
    return run(task(static_cast<int64_t>(rows.slot.size())), rows, workers);
  }

  std::vector<float> run(AttentionTask task, const AttentionRows& rows, int workers = 1) const {
    const auto count = static_cast<int64_t>(rows.slot.size());
    std::vector<std::byte> q = queries(rows, 0), pinned_q = queries(rows, 1);
    std::vector<float> result(static_cast<size_t>(count * columns()), -77.0f);
    const auto tensor = [&](void* data, DType dtype, int64_t tensor_rows, int64_t tensor_columns) {
      Tensor made{
          .data = static_cast<std::byte*>(data), .dtype = dtype, .rows = tensor_rows, .columns = tensor_columns};
      made.stride = tensor_columns * made.element_size();
      return made;
    };
    task.q = tensor(q.data(), dtype_, count, columns());
    task.pinned_q = tensor(pinned_q.data(), dtype_, count, columns());
    task.result = tensor(result.data(), DType::kFloat32, count, columns());
    std::vector<std::byte> sinks = encode(kSinks, dtype_);
    std::vector<float> slopes = kSlopes;
    if (setup_.has_sinks) task.sinks = tensor(sinks.data(), dtype_, 1, 5);
    if (setup_.has_slopes) task.slopes = tensor(slopes.data(), DType::kFloat32, 1, 5);
    task.slot = rows.slot.data();
    task.position = rows.position.data();
    std::vector<float> scratch(static_cast<size_t>(task.private_bytes() / 4), __builtin_nanf(""));
    for (int worker = 0; worker < workers; ++worker) {
      task.run(reinterpret_cast<std::byte*>(scratch.data()), {worker, workers});
    }
    return result;
  }

  /// One row of the result of `run`.
  std::vector<float> row_of(const std::vector<float>& rows, int64_t row) const {
    return {rows.begin() + row * columns(), rows.begin() + (row + 1) * columns()};
  }
  std::vector<float> run_alone(int32_t slot, int32_t position) const { return run({{slot}, {position}}); }

  /// How far a result may be from `exact`, values being in [-1, 1]. Scores and weights are float32 with errors of a few
  /// 2^-24 times their length, soft caps add a relative 3e-7 of a score below 10; weights of pairs are rounded to
  /// bfloat16, by 2^-9 of each and of their sum, unless they are powers of two.
  double tolerance() const {
    const double weights = keys_.pairs && !setup_.is_flat ? 0x1.1p-8 : 0.0;
    if (setup_.codes)
      return 4e-5;  // integers of 16 bits for queries and weights, where they are multiplied as they are
    return weights + (setup_.soft_cap > 0 || setup_.has_slopes ? 8e-6 : 4e-6);
  }

  /// Attention of one token and head in double precision.
  std::vector<double> exact(int32_t slot, int32_t position, int64_t head) const {
    std::vector<double> result(static_cast<size_t>(head_dim()));
    double total = setup_.has_sinks ? std::exp(double{kSinks[head]}) : 0.0;
    for (int64_t at = 0; at <= position; ++at) {
      const bool is_pinned = at < setup_.pinned;
      if (setup_.window > 0 && at <= position - setup_.window && !is_pinned) continue;
      const std::vector<float> q = query(slot, position, is_pinned ? 1 : 0);
      const int64_t token = ((slot * setup_.tokens + at) * kCacheHeads + head_map[head]) * head_dim();
      double score = 0;
      for (int64_t d = 0; d < head_dim(); ++d) score += double{q[head * head_dim() + d]} * k[token + d];
      score *= rule_.scale;
      if (setup_.soft_cap > 0) score = setup_.soft_cap * std::tanh(score / setup_.soft_cap);
      if (setup_.has_slopes) score += double{kSlopes[head]} * static_cast<double>(at - position);
      const double weight = std::exp(score);
      total += weight;
      for (int64_t d = 0; d < head_dim(); ++d) result[d] += weight * v[token + d];
    }
    for (double& number : result) number /= total;
    return result;
  }

  /// The largest difference of `found`, row `row` of a run, from `exact`.
  double error_of(const std::vector<float>& found, const AttentionRows& rows, size_t row) const {
    double most = 0;
    for (size_t head = 0; head < head_map.size(); ++head) {
      const std::vector<double> expected = exact(rows.slot[row], rows.position[row], static_cast<int64_t>(head));
      for (int64_t d = 0; d < head_dim(); ++d) {
        const float number = found[row * columns() + head * head_dim() + d];
        most = std::isnan(number) ? number : std::max(most, std::abs(number - expected[d]));
      }
    }
    return most;
  }

 private:
  void append_codes(int64_t slot, Range positions) {
    const RowEncoder encoder(kernels_);
    std::vector<std::byte> row(static_cast<size_t>(head_dim() + kRowScaleBytes));
    for (auto [tokens, cache] : {std::pair{&k, &keys_}, {&v, &values_}}) {
      const std::vector<std::byte> rows = encode(*tokens, dtype_);
      for (int64_t at = positions.begin; at < positions.end; ++at) {
        for (int64_t head = 0; head < kCacheHeads; ++head) {
          const int64_t first = (slot * setup_.tokens + at) * token_size() + head * head_dim();
          const std::byte* const from = rows.data() + first * static_cast<int64_t>(size_of(dtype_));
          encoder.encode(cache->dtype, {from, dtype_}, head_dim(), row.data());
          cache->write_codes(slot, at, head, row.data());
          decode_cache_row(cache->dtype, row.data(), head_dim(), tokens->data() + first);
        }
      }
    }
  }

  static inline const std::vector<float> kSinks = {0.5f, -1.0f, 2.0f, 0.25f, -3.0f};
  static inline const std::vector<float> kSlopes = {0.5f, 0.25f, 0.125f, 0.0625f, 0.03125f};

  CacheLayout make_cache(CacheRole role, std::vector<std::byte>& memory) const {
    CacheLayout cache{.role = role,
                      .dtype = setup_.codes.value_or(dtype_),
                      .pairs = !setup_.codes && kernels_.bf16_pairs && dtype_ == DType::kBFloat16,
                      .slots = kSlots,
                      .heads = kCacheHeads,
                      .capacity = setup_.ring_rows > 0 ? setup_.ring_rows : setup_.tokens,
                      .head_dim = setup_.head_dim,
                      .is_ring = setup_.ring_rows > 0,
                      .pinned = setup_.pinned};
    cache.tile_stride = kCacheHeads * cache.tile_bytes();
    cache.slot_stride = cache.tiles() * cache.tile_stride;
    memory.resize(static_cast<size_t>(kSlots * cache.slot_stride), setup_.memory);
    cache.base = memory.data();
    return cache;
  }

  std::vector<float> query(int32_t slot, int32_t position, uint32_t kind) const {
    return random_numbers(columns(),
                          100 + static_cast<uint32_t>(slot) * 5000 + static_cast<uint32_t>(position) * 2 + kind);
  }
  std::vector<std::byte> queries(const AttentionRows& rows, uint32_t kind) const {
    std::vector<float> numbers;
    for (size_t row = 0; row < rows.slot.size(); ++row) {
      const std::vector<float> q = query(rows.slot[row], rows.position[row], kind);
      numbers.insert(numbers.end(), q.begin(), q.end());
    }
    return encode(numbers, dtype_);
  }

  const Kernels& kernels_;
  DType dtype_;
  AttentionSetup setup_;
  AttentionRule rule_;
  std::vector<std::byte> key_memory_, value_memory_;
  std::vector<int32_t> written_;
  CacheLayout keys_, values_;
};

}  // namespace lockstep::cpu
