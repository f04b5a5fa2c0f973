// Tests of a driver's start on a single rank, without a device.
#include "tests/conformance/drivers/driver_test.h"
#include "transport/bootstrap.h"

namespace lockstep::conformance {
namespace {

/// One rank, alone.
class StartedDriver : public DriverTest {
 protected:
  StartedDriver() {
    site_.places = places_;
    site_.threads = 2;
    site_.exchange = [this](std::string_view mine) { return bootstrap_->exchange(mine); };
    site_.environment = [](std::string_view) { return std::nullopt; };
  }

  const std::unique_ptr<transport::Bootstrap> bootstrap_ = transport::make_single_bootstrap();
  const std::vector<device::RankPlace> places_ = bootstrap_->places().value();
  device::RankSite site_;
};
LOCKSTEP_FOR_EVERY_DRIVER(StartedDriver);

TEST_P(StartedDriver, GivesEveryRankADevice) {
  if (!is_available()) return;
  const device::DevicePlan plan = driver().place(site_, {}).value();
  ASSERT_EQ(plan.devices.size(), 1u);
  EXPECT_FALSE(plan.devices[0].empty());
  EXPECT_TRUE(plan.ordinals.empty() || plan.ordinals.size() == 1);
  EXPECT_EQ(plan, driver().place(site_, {}).value());
}

TEST_P(StartedDriver, MakesABackendThatIsAsItSaid) {
  if (!is_available()) return;
  const device::DevicePlan plan = driver().place(site_, {}).value();
  const auto made = driver().make(site_, plan, {});
  if (!made.has_value()) {  // a device or its runtime is missing
    EXPECT_FALSE(driver().signs().noun.empty()) << made.error().message;
    return;
  }
  EXPECT_EQ(made.value()->name(), driver().name());
  EXPECT_EQ(made.value()->capabilities(), driver().capabilities());
}

}  // namespace
}  // namespace lockstep::conformance
