#include "runtime/device/option_row.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

namespace lockstep::device {
namespace {

const OptionRow* find_row(std::span<const OptionRow> rows, std::string_view name) {
  const auto found = std::ranges::find(rows, name, &OptionRow::name);
  return found == rows.end() ? nullptr : &*found;
}

template <typename T>
std::optional<T> parse(std::string_view text) {
  T value{};
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

bool is_within(const OptionRow& row, double value) { return row.least <= value && value <= row.most; }

/// The values that `row` accepts, as text; empty if `value` is one of them.
std::string why_not(const OptionRow& row, std::string_view value) {
  switch (row.kind) {
    case OptionKind::kFlag: return value == "true" || value == "false" ? "" : "true or false";
    case OptionKind::kNumber: {
      const auto number = parse<double>(value);
      return number && is_within(row, *number) ? "" : fmt::format("a number from {:g} to {:g}", row.least, row.most);
    }
    case OptionKind::kInteger: {
      const auto number = parse<int64_t>(value);
      return number && is_within(row, static_cast<double>(*number))
                 ? ""
                 : fmt::format("a whole number from {:.0f} to {:.0f}", row.least, row.most);
    }
    case OptionKind::kPath: return value.empty() ? "a path" : "";
    case OptionKind::kText:
    case OptionKind::kList: break;
  }
  const std::vector<std::string_view> choices = words_of(row.choices);
  if (choices.empty() || std::ranges::find(choices, value) != choices.end()) return "";
  return fmt::format("one of {}", fmt::join(choices, ", "));
}

Error refused(std::string_view backend, std::string_view option, const std::string& what) {
  return {ErrorKind::kInvalidArgument, fmt::format("[runtime/backends/{}] --{}: {}", backend, option, what)};
}

Error no_row(std::string_view backend, std::span<const OptionRow> rows, const std::string& name) {
  std::vector<std::string> names;
  for (const OptionRow& row : rows) names.push_back(fmt::format("--{}", row.name));
  return refused(backend, name,
                 fmt::format("found an option that this backend does not have, expected {}; leave it out",
                             names.empty() ? "none" : fmt::format("one of {}", fmt::join(names, ", "))));
}

}  // namespace

std::vector<std::string_view> words_of(std::string_view bars) {
  std::vector<std::string_view> words;
  while (!bars.empty()) {
    const size_t bar = std::min(bars.find('|'), bars.size());
    words.push_back(bars.substr(0, bar));
    bars.remove_prefix(std::min(bar + 1, bars.size()));
  }
  return words;
}

Result<void> check_values(std::string_view backend, std::span<const OptionRow> rows, const OptionValues& values) {
  for (const auto& [name, value] : values) {
    const OptionRow* row = find_row(rows, name);
    if (row == nullptr) return no_row(backend, rows, name);
    if (const std::string expected = why_not(*row, value); !expected.empty()) {
      return refused(backend, name, fmt::format("found '{}', expected {}", value, expected));
    }
    for (const std::string_view other : words_of(row->excludes)) {
      if (!values.contains(std::string(other))) continue;
      return refused(backend, name, fmt::format("found it beside --{}, expected one of them; leave one out", other));
    }
  }
  return ok();
}

bool OptionReader::is_given(std::string_view name) const { return values_.contains(std::string(name)); }

std::string OptionReader::text(std::string_view name) const {
  const auto given = values_.find(std::string(name));
  if (given != values_.end()) return given->second;
  const OptionRow* row = find_row(rows_, name);
  LOCKSTEP_CHECK(row != nullptr, name);
  return std::string(row->otherwise);
}

double OptionReader::number(std::string_view name) const {
  const std::optional<double> value = parse<double>(text(name));
  LOCKSTEP_CHECK(value.has_value(), name);
  return *value;
}

bool OptionReader::flag(std::string_view name) const { return text(name) == "true"; }

std::vector<std::string> OptionReader::list(std::string_view name) const {
  std::vector<std::string> values;
  const std::string lines = text(name);
  for (size_t begin = 0; begin < lines.size();) {
    const size_t end = std::min(lines.find('\n', begin), lines.size());
    values.push_back(lines.substr(begin, end - begin));
    begin = end + 1;
  }
  return values;
}

std::optional<int64_t> OptionReader::integer(std::string_view name) const { return parse<int64_t>(text(name)); }

}  // namespace lockstep::device
