// The points of a sweep: every degree at every batch size and prompt length. Pure.
//
//   --tp 1,2,4 --batch-size 1,8 --prompt-tokens 128      6 points, a series of degrees after the other:
//
//   batch 1, 128 prompt tokens   tp 1  tp 2  tp 4
//   batch 8, 128 prompt tokens   tp 1  tp 2  tp 4
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/core/result.h"

namespace lockstep::launcher {

/// What tells the points of one sweep apart.
struct PointShape {
  int tp = 1;
  int64_t batch = 1;
  int64_t prompt_tokens = 1;
  int64_t new_tokens = 2;

  friend bool operator==(const PointShape&, const PointShape&) = default;
};

/// "tp 2, batch 8, 128 prompt and 16 new tokens".
std::string to_string(const PointShape& shape);

/// Numbers of an option's list ("1,2,4") in ascending order, each once. Fails with `kInvalidArgument` naming `option`
/// for an empty list and for what is not a number from `least` to `most`.
Result<std::vector<int64_t>> parse_counts(std::string_view list, std::string_view option, int64_t least, int64_t most);

/// The lists of a sweep.
struct GridAxes {
  std::vector<int64_t> tp, batch, prompt_tokens;
  int64_t new_tokens = 2;
};

/// All points, degrees varying fastest.
std::vector<PointShape> make_grid(const GridAxes& axes);

/// What the points of one sweep share and what changes a result: points are compared only within a variant.
struct SweepVariant {
  std::string version;               // of lockstep
  std::string launch;                // the template as it was given; empty: the default one
  std::vector<std::string> options;  // of bench, as they were given, in the order of its --help

  friend bool operator==(const SweepVariant&, const SweepVariant&) = default;
};

/// In words, for people: "--repeats 2, launched by srun -n {ranks}, lockstep 0.1.0".
std::string to_string(const SweepVariant& variant);

/// The name of a point in a journal: equal for two runs exactly if the second need not be made.
std::string key_of(const PointShape& shape, const SweepVariant& variant);

}  // namespace lockstep::launcher
