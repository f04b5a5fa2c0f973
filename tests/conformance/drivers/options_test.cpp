// The rows of every driver: documented, parsed, and the same in every build.
#include <algorithm>
#include <map>

#include "tests/conformance/drivers/driver_test.h"

namespace lockstep::conformance {
namespace {

using device::OptionKind;
using device::OptionRow;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;
using ::testing::Not;

/// Values that a row takes.
std::vector<std::string> samples_of(const OptionRow& row) {
  if (!row.choices.empty()) {
    const auto choices = device::words_of(row.choices);
    return {choices.begin(), choices.end()};
  }
  switch (row.kind) {
    case OptionKind::kFlag: return {"true", "false"};
    case OptionKind::kNumber: return {fmt::format("{}", std::max(row.least, -1e3)), fmt::format("{}", row.most)};
    case OptionKind::kInteger: return {fmt::format("{:.0f}", row.least), fmt::format("{:.0f}", row.most)};
    case OptionKind::kPath: return {"a/path"};
    case OptionKind::kText: return {"3"};
    case OptionKind::kList: return {"one", "one\ntwo"};
  }
  return {};
}

/// A value that it does not take; empty: it takes any.
std::string nonsense_for(const OptionRow& row) {
  const bool takes_any = row.choices.empty() && (row.kind == OptionKind::kText || row.kind == OptionKind::kList);
  if (takes_any) return "";
  if (row.kind == OptionKind::kPath) return "";
  return "no such value";
}

class DriverOptions : public DriverTest {};
LOCKSTEP_FOR_EVERY_DRIVER(DriverOptions);

TEST_P(DriverOptions, AreDocumented) {
  for (const OptionRow& row : driver().options()) {
    SCOPED_TRACE(row.name);
    EXPECT_THAT(std::string(row.name), MatchesRegex("[a-z][a-z0-9-]*"));
    EXPECT_THAT(row.help, Not(IsEmpty()));
    EXPECT_THAT(row.section, Not(IsEmpty()));
    EXPECT_EQ(row.value_name.empty(), row.kind == OptionKind::kFlag);
  }
}

TEST_P(DriverOptions, TakeWhatTheirRowsSay) {
  for (const OptionRow& row : driver().options()) {
    for (const std::string& value : samples_of(row)) {
      const auto checked = driver().check_options({{std::string(row.name), value}});
      const bool is_left_out =
          !checked.has_value() && checked.error().kind == ErrorKind::kUnsupported;  // of this build
      EXPECT_TRUE(checked.has_value() || is_left_out) << row.name << " " << value << ": " << checked.error().message;
    }
  }
}

TEST_P(DriverOptions, RefuseWhatTheirRowsDoNotSayAndNameTheOption) {
  for (const OptionRow& row : driver().options()) {
    const std::string nonsense = nonsense_for(row);
    if (nonsense.empty()) continue;
    const auto checked = driver().check_options({{std::string(row.name), nonsense}});
    ASSERT_FALSE(checked.has_value()) << row.name;
    EXPECT_EQ(checked.error().kind, ErrorKind::kInvalidArgument);
    EXPECT_THAT(checked.error().message, HasSubstr("--" + std::string(row.name)));
  }
  EXPECT_THAT(driver().check_options({{"no-such-option", "1"}}).error().message, HasSubstr("--no-such-option"));
}

TEST_P(DriverOptions, HaveDefaultsThatTheyTake) {
  for (const OptionRow& row : driver().options()) {
    if (row.otherwise.empty()) continue;
    EXPECT_TRUE(driver().check_options({{std::string(row.name), std::string(row.otherwise)}}).has_value()) << row.name;
  }
}

TEST_P(DriverOptions, ExcludeOptionsThatThereAre) {
  const auto rows = driver().options();
  for (const OptionRow& row : rows) {
    for (const std::string_view other : device::words_of(row.excludes)) {
      ASSERT_NE(std::ranges::find(rows, other, &OptionRow::name), rows.end()) << row.name << " " << other;
    }
  }
}

TEST_P(DriverOptions, ThatChangeWhatRanksComputeAreInTheStatement) {
  if (!is_available()) return;
  const std::string plain = driver().statement({});
  EXPECT_EQ(driver().statement({}), plain);
  for (const OptionRow& row : driver().options()) {
    if (row.choices.empty()) continue;  // a choice is between ways to compute
    std::map<std::string, std::string> by_statement;
    for (const std::string& value : samples_of(row)) {
      const std::string statement = driver().statement({{std::string(row.name), value}});
      EXPECT_THAT(statement, HasSubstr(value));
      EXPECT_TRUE(by_statement.emplace(statement, value).second) << row.name << " " << value;
    }
  }
}

TEST(OptionsOfDrivers, HaveOneMeaningWhereTheyShareAName) {
  std::map<std::string_view, OptionRow> rows;
  for (const device::BackendDriver* driver : engine::drivers()) {
    for (const OptionRow& row : driver->options()) {
      EXPECT_EQ(rows.emplace(row.name, row).first->second, row) << row.name;
    }
  }
}

}  // namespace
}  // namespace lockstep::conformance
