// Sources of a shard's weights, and loading into a store: some rows at a time, so the host holds little more than the
// packed weights.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/checkpoint/checkpoint.h"
#include "runtime/device/backend.h"
#include "runtime/graph/graph.h"
#include "shards/part_sums.h"

namespace lockstep::shards {

/// Gives slices of named tensors. Thread-safe.
class WeightSource {
 public:
  virtual ~WeightSource() = default;

  /// Writes `ranges` of `tensor` (whole shape `whole`), row-major as `dtype`, to `dst`.
  virtual Result<void> read(const std::string& tensor, const Shape& whole, std::span<const Range> ranges, DType dtype,
                            std::span<std::byte> dst) const = 0;

  /// The format in which the source has `tensor`; empty: as elements.
  virtual std::optional<WeightFormat> format_of(const std::string& tensor) const {
    (void)tensor;
    return std::nullopt;
  }

  /// Reads codes of a tensor with a format, and what the groups that `columns` touches have beside them.
  virtual Result<void> read_codes(const std::string& tensor, const Shape& whole, Range rows, Range columns,
                                  CodedRows dst) const {
    (void)whole, (void)rows, (void)columns, (void)dst;
    LOCKSTEP_CHECK(false, tensor);
    return ok();
  }

  /// The number of adjacent rows of `tensor` to read together, at least 1.
  virtual int64_t rows_at_once(const std::string& tensor) const {
    (void)tensor;
    return 1;
  }

  /// The position of `tensor` among all tensors; read them in ascending order.
  virtual int64_t place_of(const std::string& tensor) const {
    (void)tensor;
    return 0;
  }

  /// Prefetches ranges that will be read soon. Does not wait.
  virtual void expect(const std::string& tensor, std::span<const Range> ranges) const { (void)tensor, (void)ranges; }
};

/// Whether the next reads are announced to the system or read ahead by checkpoint::ReadAhead.
enum class Fetching { kAnnounced, kReadAhead };

/// The tensors of an open checkpoint, which outlives the source.
class CheckpointWeights final : public WeightSource {
 public:
  explicit CheckpointWeights(const checkpoint::Checkpoint& checkpoint, Fetching fetching = Fetching::kAnnounced)
      : checkpoint_(checkpoint), fetching_(fetching) {}

  Result<void> read(const std::string& tensor, const Shape& whole, std::span<const Range> ranges, DType dtype,
                    std::span<std::byte> dst) const override {
    return checkpoint_.read(tensor, whole, ranges, dtype, dst);
  }
  std::optional<WeightFormat> format_of(const std::string& tensor) const override {
    const auto found = checkpoint_.tensors().find(tensor);
    return found == checkpoint_.tensors().end() ? std::nullopt : found->second.format;
  }
  Result<void> read_codes(const std::string& tensor, const Shape& whole, Range rows, Range columns,
                          CodedRows dst) const override {
    return checkpoint_.read_codes(tensor, whole, rows, columns, dst);
  }
  int64_t rows_at_once(const std::string& tensor) const override { return checkpoint_.rows_at_once(tensor); }
  int64_t place_of(const std::string& tensor) const override { return checkpoint_.place_of(tensor); }
  void expect(const std::string& tensor, std::span<const Range> ranges) const override {
    if (fetching_ == Fetching::kAnnounced) checkpoint_.expect(tensor, ranges);
  }

 private:
  const checkpoint::Checkpoint& checkpoint_;
  const Fetching fetching_;
};

/// Pseudo-random weights of a trained model's scale, as a function of (tensor, row, column), so every partition is the
/// same model. For speed studies without a checkpoint.
class RandomWeights final : public WeightSource {
 public:
  Result<void> read(const std::string& tensor, const Shape& whole, std::span<const Range> ranges, DType dtype,
                    std::span<std::byte> dst) const override;
};

/// Reads every weight of `graph` from `source` into `store`. `tensors` gives the whole shape of every checkpoint
/// tensor. `sums` (may be null) sums the parts that it wants, of what `source` gives.
Result<void> load_weights(const graph::Graph& graph, const std::map<std::string, Shape>& tensors,
                          const WeightSource& source, device::Store& store, PartSums* sums = nullptr);

}  // namespace lockstep::shards
