// Tests of the list of drivers, and of each driver's description.
#include <set>

#include "tests/conformance/drivers/driver_test.h"

namespace lockstep::conformance {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class Driver : public DriverTest {};
LOCKSTEP_FOR_EVERY_DRIVER(Driver);

TEST_P(Driver, IsFoundByItsName) {
  const auto found = engine::find_driver(driver().name());
  EXPECT_EQ(found.has_value(), is_available());
  if (!is_available()) return;
  EXPECT_EQ(found.value(), &driver());
}

TEST_P(Driver, SaysWhatBringsItWhereTheBuildLacksIt) {
  if (is_available()) return;
  const Error why = driver().available().error();
  EXPECT_EQ(why.kind, ErrorKind::kUnavailable);
  EXPECT_THAT(why.message, AllOf(HasSubstr(std::string(driver().name())), HasSubstr("; ")));
  EXPECT_EQ(engine::find_driver(driver().name()).error(), why);
  EXPECT_EQ(driver().place({}, {}).error(), why);
  EXPECT_EQ(driver().make({}, {}, {}).error(), why);
  EXPECT_EQ(driver().check({}, {}, {}, {}).error(), why);
  EXPECT_EQ(driver().compiler(), nullptr);
  EXPECT_EQ(driver().rules(), nullptr);
  EXPECT_EQ(driver().inspector(), nullptr);
}

TEST_P(Driver, HasATypeToComputeIn) {
  if (!is_available()) return;
  EXPECT_THAT(driver().capabilities().dtypes, Not(IsEmpty()));
}

TEST_P(Driver, HasSignsOfADeviceAltogetherOrNone) {
  const device::DeviceSigns signs = driver().signs();
  EXPECT_EQ(signs.noun.empty(), signs.files.empty());
  EXPECT_EQ(signs.noun.empty(), signs.variable.empty());
}

TEST_P(Driver, ThatHasOptionsForAPlanHasRules) {
  if (!is_available()) return;
  for (const device::OptionRow& row : driver().options()) {
    const auto is_of = [&](device::OptionUse command) { return belongs_to(row.use, command); };
    EXPECT_TRUE(!is_of(device::OptionUse::kCompiling) || driver().compiler() != nullptr) << row.name;
    EXPECT_TRUE(!is_of(device::OptionUse::kPlanning) || driver().rules() != nullptr) << row.name;
  }
}

TEST(Drivers, HaveDifferentNames) {
  std::set<std::string_view> names;
  for (const device::BackendDriver* driver : engine::drivers()) EXPECT_TRUE(names.insert(driver->name()).second);
  EXPECT_TRUE(engine::drivers().front()->available().has_value());  // the default
}

TEST(Drivers, AreListedWhereANameIsUnknown) {
  const auto unknown = engine::find_driver("abacus");
  ASSERT_FALSE(unknown.has_value());
  EXPECT_EQ(unknown.error().kind, ErrorKind::kInvalidArgument);
  for (const device::BackendDriver* driver : engine::drivers()) {
    EXPECT_THAT(unknown.error().message, HasSubstr(std::string(driver->name())));
  }
}

}  // namespace
}  // namespace lockstep::conformance
