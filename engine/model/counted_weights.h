// A source of weights with reports of the bytes read.
#pragma once

#include <utility>

#include "engine/group/progress_reporter.h"
#include "runtime/graph/graph.h"
#include "shards/weights.h"

namespace lockstep::model {

class CountedWeights final : public shards::WeightSource {
 public:
  /// Borrows both. All weights of `graph` will be read.
  CountedWeights(const shards::WeightSource& inner, const graph::Graph& graph, group::ProgressReporter& progress)
      : inner_(inner), progress_(progress) {
    int64_t bytes = 0;
    for (const graph::ValueId id : graph.values_of(graph::ValueKind::kWeight)) bytes += graph.value(id).type.bytes();
    progress_.expect(Progress::Work::kLoading, bytes);
  }
  ~CountedWeights() override { progress_.finish(Progress::Work::kLoading); }
  CountedWeights(const CountedWeights&) = delete;
  CountedWeights& operator=(const CountedWeights&) = delete;

  Result<void> read(const std::string& tensor, const Shape& whole, std::span<const Range> ranges, DType dtype,
                    std::span<std::byte> dst) const override {
    LOCKSTEP_TRY_VOID(inner_.read(tensor, whole, ranges, dtype, dst));
    progress_.add(Progress::Work::kLoading, std::ssize(dst));
    return ok();
  }
  int64_t rows_at_once(const std::string& tensor) const override { return inner_.rows_at_once(tensor); }
  int64_t place_of(const std::string& tensor) const override { return inner_.place_of(tensor); }
  void expect(const std::string& tensor, std::span<const Range> ranges) const override {
    inner_.expect(tensor, ranges);
  }

 private:
  const shards::WeightSource& inner_;
  group::ProgressReporter& progress_;
};

}  // namespace lockstep::model
