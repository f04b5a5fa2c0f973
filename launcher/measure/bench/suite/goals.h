// What a suite measures and what it is held against, as data: measurements (programs that are run in turn) and goals
// (figures made of what they report, with a floor and an aim).
//
//   measurement "ranks"      side ranks: 2 ranks × 1 thread        round 0: ranks whole single
//                            side whole: 1 rank × 2 threads        round 1: ranks whole single
//                            side single: 1 rank × 1 thread        …
//   goal "ranks-decode"      ranks:/decode/tokens_per_s ÷ whole:/decode/tokens_per_s     one pair a round
//   goal "prefill-512"       whole:/repetitions/*/of_peak                                one pair a repetition
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "launcher/measure/sweep/launch_words.h"
#include "runtime/process/child_process.h"

namespace lockstep::launcher::suite {

enum class Better { kHigher, kLower };

/// A number of what one side reported, by its JSON pointer; `*` stands for every element of an array, `[key=number]`
/// for the element whose `key` is that number.
struct Operand {
  std::string side;
  std::string pointer;
};

/// The product of `over` and `factor` divided by the product of `under`; a list is taken element by element.
struct Formula {
  std::vector<Operand> over, under;
  double factor = 1.0;
};

/// A figure that is shown beside a goal's own: tokens/s, GB/s.
struct Shown {
  std::string name;
  Operand operand;
  double scale = 1.0;
  std::string unit;
};

/// A line of the table.
struct Goal {
  std::string id;    // "ranks-decode"; what --only names
  std::string name;  // "2 ranks of 1 thread over 1 rank of 2, decode"
  std::string measurement;
  Better better = Better::kHigher;
  double floor = 0.0, aim = 0.0;
  Formula figure;
  std::vector<Shown> beside;
};

/// What is done to a side's files before it starts.
enum class Files { kAsTheyAre, kWarm, kCold };

/// One of the things that are compared.
struct Side {
  std::string name;
  std::vector<std::string> words;  // its command line, without where its result goes
  Files files = Files::kAsTheyAre;
};

/// Why something is not measured.
struct Absence {
  enum class Kind { kMissing, kNotAvailable };  // can be had; cannot be had here

  Kind kind = Kind::kNotAvailable;
  std::string reason;
};

/// Programs that are run in turn: every side once, then every side again, `rounds` times.
struct Measurement {
  std::string id;
  std::vector<Side> sides;
  int rounds = 1;
  double deadline_s = 300.0;            // of each program
  std::filesystem::path files;          // whose cache `Side::files` is about
  std::optional<Absence> absence = {};  // set: nothing is run
};

struct Suite {
  std::vector<Measurement> measurements;
  std::vector<Goal> goals;
};

/// What a suite runs on and with.
struct Setting {
  int cores = 1;    // that this process may use
  int ranks = 1;    // of the rows about several ranks; 1: there are none
  int threads = 1;  // of each of those ranks
  std::string program;
  LaunchTemplate launch;                            // of several ranks; empty: mpirun
  std::filesystem::path large, small;               // config.json of the two shapes
  std::optional<std::filesystem::path> checkpoint;  // of the rows about files
  std::vector<std::string> shared;                  // options that every run of bench gets
  int pairs = 5;
  int repeats = 2;  // of a program that is one of several sides
  double deadline_s = 300.0;
  std::filesystem::path collectives;  // the program that times collectives beside MPI's; empty: not found
  std::vector<std::string> compare;   // the program that runs rivals, and its options; empty: not found
};

/// The rows of `--suite cpu`. Pure.
Suite cpu_suite(const Setting& setting);

}  // namespace lockstep::launcher::suite
