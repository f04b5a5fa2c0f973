// The options of backends as rows of a table, and their values as text.
//
//   row                                                 as a flag of the program        in OptionValues
//   {"neuron-target", kText, choices "trn1|trn2"}       --neuron-target trn2            "neuron-target": "trn2"
//   {"require-cached", kFlag}                           --require-cached                "require-cached": "true"
//   {"compile-cache-remote", kList}                     --compile-cache-remote A … B    …: "A\nB"
//
// Flags, checks and documents are made of the same rows, in every build.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/core/result.h"

namespace lockstep::device {

enum class OptionKind : uint8_t { kText, kPath, kNumber, kInteger, kFlag, kList };

/// What an option is for: a use includes those before it.
enum class OptionUse : uint8_t {
  kRunning,    // running a model
  kCompiling,  // also compiling ahead of time
  kPlanning,   // also planning: naming it asks for the rules of the backend's devices
};

/// One option of a backend. Borrows text that lives as long as the program.
struct OptionRow {
  std::string_view name;        // "neuron-target"
  std::string_view value_name;  // what a value is called: "NAME"; empty for a flag
  std::string_view otherwise;   // the value where none is given; empty: none
  std::string_view help;
  std::string_view choices;  // "trn1|trn2|inf2"; empty: any
  std::string_view section;  // the heading that it stands below
  OptionKind kind = OptionKind::kText;
  OptionUse use = OptionUse::kRunning;
  double least = std::numeric_limits<double>::lowest();  // of numbers
  double most = std::numeric_limits<double>::max();
  std::string_view excludes;  // options that are not given beside it: "retry-failed|compile-cache"

  friend bool operator==(const OptionRow&, const OptionRow&) = default;
};

/// The options that were given, by name. A flag is "true" or "false", a list has a line for each value.
using OptionValues = std::map<std::string, std::string>;

/// The words between bars: "trn1|trn2" is {"trn1", "trn2"}.
std::vector<std::string_view> words_of(std::string_view bars);

/// Fails with `kInvalidArgument` that names `backend` and the option: one that has no row, a value that its row does
/// not take, two that exclude each other. Pure.
Result<void> check_values(std::string_view backend, std::span<const OptionRow> rows, const OptionValues& values);

/// Reads values that `check_values` has passed; what was not given is as its row says. Borrows both. Names are those of
/// rows.
class OptionReader {
 public:
  OptionReader(std::span<const OptionRow> rows, const OptionValues& values) : rows_(rows), values_(values) {}

  bool is_given(std::string_view name) const;
  std::string text(std::string_view name) const;
  double number(std::string_view name) const;
  bool flag(std::string_view name) const;
  std::vector<std::string> list(std::string_view name) const;
  /// Empty where there is neither a value nor a default.
  std::optional<int64_t> integer(std::string_view name) const;

 private:
  std::span<const OptionRow> rows_;
  const OptionValues& values_;
};

}  // namespace lockstep::device
