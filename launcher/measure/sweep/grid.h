// The points of a sweep: every number of replicas of every degree, at every batch size and prompt length. Pure.
//
//   --tp 1,2 --replicas 1,2 --batch-size 1,8 --prompt-tokens 128      8 points, one series of splits after another:
//
//   batch 1, 128 prompt tokens   tp 1  tp 2  2 x tp 1  2 x tp 2
//   batch 8, 128 prompt tokens   tp 1  tp 2  2 x tp 1  2 x tp 2
//
// A point with replicas runs groups at the same time that share its batch and the machine's cores.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/core/result.h"

namespace lockstep::launcher {

/// The sizes that distinguish the points of one sweep.
struct PointShape {
  int tp = 1;
  int64_t batch = 1;
  int64_t prompt_tokens = 1;
  int64_t new_tokens = 2;
  int replicas = 1;  // groups of `tp` ranks

  /// P: of all groups.
  int ranks() const { return replicas * tp; }

  friend bool operator==(const PointShape&, const PointShape&) = default;
};

/// "tp 2, batch 8, 128 prompt and 16 new tokens", "2 x tp 1, batch 8 …".
std::string to_string(const PointShape& shape);
/// "TP 2", "2 × TP 1".
std::string split_name(const PointShape& shape);

/// Numbers of an option's list ("1,2,4"), ascending and distinct. Fails with `kInvalidArgument` naming `option` for an
/// empty list and for an element that is not a number from `least` to `most`.
Result<std::vector<int64_t>> parse_counts(std::string_view list, std::string_view option, int64_t least, int64_t most);

/// The lists of a sweep.
struct GridAxes {
  std::vector<int64_t> tp, batch, prompt_tokens;
  int64_t new_tokens = 2;
  std::vector<int64_t> replicas = {1};
};

/// All points, degrees varying fastest, then replicas.
std::vector<PointShape> make_grid(const GridAxes& axes);

/// The shared settings of a sweep's points that change a result: only points of one variant are compared.
struct SweepVariant {
  std::string version;               // of lockstep
  std::string launch;                // the template as given; empty: the default one
  std::vector<std::string> options;  // of bench, as given, in the order of its --help

  friend bool operator==(const SweepVariant&, const SweepVariant&) = default;
};

/// As readable text: "--repeats 2, launched by srun -n {ranks}, lockstep 0.1.0".
std::string to_string(const SweepVariant& variant);

/// The name of a point in a journal: equal for two runs exactly if the first makes the second redundant.
std::string key_of(const PointShape& shape, const SweepVariant& variant);

}  // namespace lockstep::launcher
