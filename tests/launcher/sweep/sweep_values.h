// Made-up records and results of sweeps, for tests.
#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

#include "launcher/measure/sweep/results.h"

namespace lockstep::launcher {

/// The JSON of `bench --json`, with the parts that a sweep reads. Seconds of a rank's decode steps are `compute`,
/// `communication` and `waiting`; repetitions lie 10 % below and above.
struct FakeBench {
  int tp = 1;
  double decode = 40.0, prefill = 400.0, ttft = 0.2;
  double compute = 1.0, communication = 0.0, waiting = 0.0;
  int threads = 1;
  bool bad_probe = false;
  std::string predicted = "null";
  double spread = 0.1;
  double begin_s = 0.0, end_s = 0.0;  // of each repetition; 0: an older document, without them

  std::string document() const {
    const std::string split =
        fmt::format(R"({{"compute_s":{},"communication_s":{},"waiting_s":{}}})", compute, communication, waiting);
    std::string ranks, repetitions;
    for (int rank = 0; rank < tp; ++rank) {
      ranks += fmt::format(R"({}{{"decode":{},"prefill":{}}})", rank == 0 ? "" : ",", split, split);
    }
    const std::string times = end_s > 0 ? fmt::format(R"(,"begin_s":{},"end_s":{})", begin_s, end_s) : "";
    for (const double factor : {1.0 - spread, 1.0, 1.0 + spread}) {
      repetitions += fmt::format(
          R"({}{{"decode_tokens_per_s":{},"prefill_tokens_per_s":{},"ttft_s":{},"tpot_s":{}{}}})",
          repetitions.empty() ? "" : ",", decode * factor, prefill * factor, ttft * factor, factor / decode, times);
    }
    return fmt::format(R"({{"decode":{{"tokens_per_s":{},"of_bandwidth":0.5}},"prefill":{{"tokens_per_s":{},)"
                       R"("of_peak":0.6}},"ttft_s":{},"tpot_s":{},"probe":{{"read_bytes_per_s":2e10,)"
                       R"("flops_per_s":5e10}},"bad_probe":{},"ranks":[{}],"repetitions":[{}],"threads":{},)"
                       R"("dtype":"f32","backend":"cpu","communicator":"shm","world_size":{},"predicted":{}}})",
                       decode, prefill, ttft, 1 / decode, bad_probe, ranks, repetitions, threads, tp, predicted);
  }
};

inline SweepVariant plain_variant() { return {.version = "0.1.0", .launch = "", .options = {"--repeats", "3"}}; }

inline PointRecord record_of_bench(const FakeBench& bench, int64_t batch = 1) {
  const PointShape shape{.tp = bench.tp, .batch = batch, .prompt_tokens = 128, .new_tokens = 16};
  return {.key = key_of(shape, plain_variant()),
          .shape = shape,
          .variant = plain_variant(),
          .seconds = 12.5,
          .unix_time = 1000.0,
          .machine = {.host = "node1", .cpu = "a processor", .cores = 8},
          .command = "lockstep bench",
          .result = bench.document()};
}

/// A point of as many replicas as there are `groups`, all of the same degree.
inline PointRecord record_of_groups(const std::vector<FakeBench>& groups, int64_t batch) {
  PointRecord record = record_of_bench(groups.front(), batch);
  record.shape.replicas = static_cast<int>(groups.size());
  record.key = key_of(record.shape, plain_variant());
  std::string documents;
  for (const FakeBench& group : groups) documents += (documents.empty() ? "" : ",") + group.document();
  record.result = "[" + documents + "]";
  return record;
}

inline PointRecord failed_record(int tp, PointStatus status, std::string message) {
  PointRecord record = record_of_bench({.tp = tp});
  record.status = status;
  record.code = status == PointStatus::kImpossible ? 3 : 1;
  record.message = std::move(message);
  record.result.clear();
  return record;
}

inline Study study_of(std::vector<PointRecord> records) {
  return make_study(
             {.model = ModelIdentity{.path = "models/tiny", .config_hash = "00ff"}, .points = std::move(records)})
      .value();
}

}  // namespace lockstep::launcher
