// The options of backends as rows of a table, and their values as text.
//
//   row                                                 as a flag of the program        in OptionValues
//   {"neuron-target", kText, choices "trn1|trn2"}       --neuron-target trn2            "neuron-target": "trn2"
//   {"require-cached", kFlag}                           --require-cached                "require-cached": "true"
//   {"compile-cache-remote", kList}                     --compile-cache-remote A … B    …: "A\nB"
//
// Flags, checks and documentation are generated from the same rows, in every build.
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

/// The commands that an option belongs to. Each of the first three uses includes the previous ones.
enum class OptionUse : uint8_t {
  kRunning,             // running a model
  kCompiling,           // also compiling ahead of time
  kPlanning,            // also planning: naming it selects the rules of the backend's devices
  kRunningAndPlanning,  // likewise, of devices that are not compiled for ahead of time
};

/// Whether an option of `use` belongs to a command of the first three.
constexpr bool belongs_to(OptionUse use, OptionUse command) {
  if (use == OptionUse::kRunningAndPlanning) return command != OptionUse::kCompiling;
  return use >= command;
}

/// One option of a backend. Borrows text that lives as long as the program.
struct OptionRow {
  std::string_view name;        // "neuron-target"
  std::string_view value_name;  // placeholder in the help text: "NAME"; empty for a flag
  std::string_view otherwise;   // the default value; empty: none
  std::string_view help;
  std::string_view choices;  // "trn1|trn2|inf2"; empty: any
  std::string_view section;  // heading in the help text
  OptionKind kind = OptionKind::kText;
  OptionUse use = OptionUse::kRunning;
  double least = std::numeric_limits<double>::lowest();  // of numbers
  double most = std::numeric_limits<double>::max();
  std::string_view excludes;  // options that cannot be combined with it: "retry-failed|compile-cache"

  friend bool operator==(const OptionRow&, const OptionRow&) = default;
};

/// The options that were given, by name. A flag is "true" or "false"; a list has one line per value.
using OptionValues = std::map<std::string, std::string>;

/// The parts between bars: "trn1|trn2" is {"trn1", "trn2"}.
std::vector<std::string_view> words_of(std::string_view bars);

/// Fails with `kInvalidArgument` naming `backend` and the option: an unknown option, an invalid value, or two options
/// that exclude each other. Pure.
Result<void> check_values(std::string_view backend, std::span<const OptionRow> rows, const OptionValues& values);

/// Reads values checked by `check_values`; absent options have their row's default. Borrows both. Names must exist in
/// the rows.
class OptionReader {
 public:
  OptionReader(std::span<const OptionRow> rows, const OptionValues& values) : rows_(rows), values_(values) {}

  bool is_given(std::string_view name) const;
  std::string text(std::string_view name) const;
  double number(std::string_view name) const;
  bool flag(std::string_view name) const;
  std::vector<std::string> list(std::string_view name) const;
  /// Empty if there is neither a value nor a default.
  std::optional<int64_t> integer(std::string_view name) const;

 private:
  std::span<const OptionRow> rows_;
  const OptionValues& values_;
};

}  // namespace lockstep::device
