// Figures of pairs: what a goal's formula gives for what the sides reported, how far it spreads, and how it stands to
// floor and aim. Pure.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "launcher/measure/bench/suite/goals.h"

namespace lockstep::launcher::suite {

/// The JSON that the sides of one round reported, by their names. A side that failed is not there.
using Documents = std::map<std::string, std::string>;

/// What became of one program of a measurement.
struct ChildRecord {
  enum class Status { kOk, kRefused, kFailed };  // refused: it does not know an option, or cannot do what it asks

  std::string side;
  int round = 0;
  std::string command;
  Status status = Status::kOk;
  int code = 0;  // as a shell gives it
  double seconds = 0.0;
  std::string reason;    // why it did not work
  std::string document;  // what it reported; empty unless it worked
};

/// The values of `formula` in one round, a value for each pair. Fails with `kNotFound` when a side reported no such
/// number, and with `kInvalidArgument` for lists of different lengths and a division by 0.
Result<std::vector<double>> values_of(const Formula& formula, const Documents& round);

struct PairSpread {
  double median = 0.0, min = 0.0, max = 0.0;
  double lower = 0.0, upper = 0.0;  // quartiles
};

/// Of at least one value; quartiles lie between two values where they must, as the median does.
PairSpread pair_spread(std::vector<double> values);

enum class Verdict { kAim, kFloor, kBelow, kFailed, kNotAvailable, kMissing };

/// "aim", "pass", "below", "failed", "not available", "missing".
std::string_view to_string(Verdict verdict);
bool is_measured(Verdict verdict);

/// A measured figure beside its limits.
Verdict judge(const Goal& goal, double figure);

/// 1 where the aim is just reached, more where it is passed, whichever direction is better.
double of_aim(const Goal& goal, double figure);

/// A row of the report.
struct Row {
  Goal goal;
  Verdict verdict = Verdict::kFailed;
  std::vector<double> pairs;                                // in the order in which they were measured
  PairSpread spread;                                        // of them; all 0 where there are none
  std::string reason;                                       // why there are no pairs, or fewer than were asked for
  std::vector<std::pair<std::string, std::string>> beside;  // names and medians with their units, as text
};

/// The row of `goal` from what became of its measurement's programs.
Row make_row(const Goal& goal, const Measurement& measurement, const std::vector<ChildRecord>& children);

}  // namespace lockstep::launcher::suite
