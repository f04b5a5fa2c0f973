// The common fixture of the driver suites.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "engine/drivers.h"

namespace lockstep::conformance {

/// Runs over every driver of the program.
class DriverTest : public ::testing::TestWithParam<const device::BackendDriver*> {
 protected:
  const device::BackendDriver& driver() const { return *GetParam(); }
  bool is_available() const { return driver().available().has_value(); }
};

inline std::string driver_name(const ::testing::TestParamInfo<const device::BackendDriver*>& info) {
  return std::string(info.param->name());
}

}  // namespace lockstep::conformance

#define LOCKSTEP_FOR_EVERY_DRIVER(Suite)                                                                           \
  INSTANTIATE_TEST_SUITE_P(                                                                                        \
      All, Suite, ::testing::ValuesIn(::lockstep::engine::drivers().begin(), ::lockstep::engine::drivers().end()), \
      ::lockstep::conformance::driver_name)
