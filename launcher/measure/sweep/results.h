// The results of a sweep as rows: the journal's records and ratios between them. Pure.
//
// A series is a set of comparable points: the same variant, batch and prompt over the splits into replicas and degrees.
//
//   speed-up       decode tokens/s divided by that of the fewest ranks of the series that worked
//   efficiency     speed-up · those ranks / these ranks
//   communication  share of the time of decode (prefill) steps that ranks spend in collectives, mean of the ranks;
//                  `waiting` is the part of it before the last rank enters
//   replicas       of each repetition: the sum of the groups' tokens/s and limits, the longest of their TTFT and TPOT
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launcher/measure/sweep/journal.h"
#include "runtime/core/short_number.h"

namespace lockstep::launcher {

/// A quantity over the repetitions of a point.
struct Measured {
  double median = 0.0, min = 0.0, max = 0.0;

  friend bool operator==(const Measured&, const Measured&) = default;
};

/// Shares of the time of a phase's steps, 0 to 1.
struct StepShares {
  double communication = 0.0;  // in collectives, waiting included
  double waiting = 0.0;
};

/// Bench's prediction from the machine's limits, made before it measured.
struct Prediction {
  double decode_tokens_per_s = 0.0, prefill_tokens_per_s = 0.0, ttft_s = 0.0, tpot_s = 0.0;
  double decode_communication = 0.0, prefill_communication = 0.0;  // shares
};

/// The measurement of a point that worked.
struct PointResult {
  Measured decode, prefill;  // tokens/s
  Measured ttft, tpot;       // seconds
  StepShares decode_shares, prefill_shares;
  double of_bandwidth = 0.0, of_peak = 0.0;          // ratios to the probes
  double read_bytes_per_s = 0.0, flops_per_s = 0.0;  // the probes
  bool bad_probe = false;
  int threads = 1;                 // of a rank
  std::optional<double> together;  // share of a repetition's time in which all groups computed; empty for one group
  std::string dtype, backend, communicator;
  std::optional<Prediction> predicted;
};

/// Reads the document of bench --json, or the list of those of a point's groups. Fails with `kInvalidArgument` if a
/// required field is missing.
Result<PointResult> parse_result(const std::string& document);

struct ResultRow {
  PointRecord record;                          // without its document
  std::optional<PointResult> result;           // empty unless it worked
  std::optional<double> speed_up, efficiency;  // empty without a result
};

/// Rows of one series.
struct Series {
  SweepVariant variant;
  int64_t batch = 1, prompt_tokens = 1, new_tokens = 2;
  std::vector<ResultRow> rows;  // not empty; by ranks, then by degree
};

struct Study {
  ModelIdentity model;
  std::vector<Series> series;  // by variant as they appeared, then batch, prompt and new tokens

  /// The number of variants; with several, a series' name contains its variant.
  size_t variants() const;
  /// Whether a point has several groups.
  bool has_replicas() const;
  /// The distinct machines that the points were started from.
  std::vector<Machine> machines() const;
};

/// Fails as `parse_result`, naming the point.
Result<Study> make_study(const JournalFolder& journals);

/// "batch 1, 128 prompt tokens", and the new tokens and the variant if the study has several.
std::string name_of(const Series& series, const Study& study);

}  // namespace lockstep::launcher
