#include "runtime/backends/neuron/nrt/status.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

namespace lockstep::nrt {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

/// Every status of the public header, by name.
std::map<std::string, int> declared() {
  std::map<std::string, int> values;
#define FUNCTION(...)
#define ENUMERATOR(name, value) values[#name] = value;
#define SIZE(...)
#define FIELD(...)
#include "tests/runtime/backends/neuron/nrt/declarations.inc"
  return values;
}

TEST(Status, MeansSomethingForEveryFailureOfThePublicHeader) {
  const auto values = declared();
  std::set<std::string> others = {"NRT_SUCCESS"};
  for (const auto& [name, value] : values) {
    for (const char* const prefix : {"NRT_DTYPE", "NRT_INSTANCE", "NRT_FRAMEWORK", "NRT_TENSOR"}) {
      if (name.starts_with(prefix)) others.insert(name);
    }
  }
  for (const StatusMeaning& meaning : status_meanings()) {
    ASSERT_TRUE(values.contains(std::string(meaning.name))) << meaning.name;
    EXPECT_EQ(values.at(std::string(meaning.name)), static_cast<int>(meaning.status));
    EXPECT_FALSE(meaning.meaning.empty() || meaning.advice.empty()) << meaning.name;
  }
  EXPECT_EQ(status_meanings().size() + others.size(), values.size());
}

TEST(Status, BecomesAnErrorThatSaysWhatToDo) {
  const Error error = error_of(NRT_UNSUPPORTED_NEFF_VERSION, "load decode");
  EXPECT_EQ(error.kind, ErrorKind::kFailedPrecondition);
  EXPECT_THAT(error.message, AllOf(HasSubstr("cannot load decode: found status 10 NRT_UNSUPPORTED_NEFF_VERSION"),
                                   HasSubstr("expected success; install neuronx-cc")));
}

TEST(Status, HasTheExitCodeOfItsKind) {
  const std::map<NRT_STATUS, int> codes = {{NRT_INVALID, 4},
                                           {NRT_RESOURCE, 7},
                                           {NRT_TIMEOUT, 6},
                                           {NRT_UNSUPPORTED_NEFF_VERSION, 4},
                                           {NRT_EXEC_COMPLETED_WITH_NUM_ERR, 2},
                                           {NRT_EXEC_OOB, 1},
                                           {NRT_EXEC_HW_ERR_COLLECTIVES, 5}};
  for (const auto& [status, code] : codes) EXPECT_EQ(exit_code(error_of(status, "run decode").kind), code) << status;
}

TEST(Status, ThatNobodyKnowsIsStillAnError) {
  const Error error = error_of(static_cast<NRT_STATUS>(1999), "run decode");
  EXPECT_EQ(error.kind, ErrorKind::kUnavailable);
  EXPECT_THAT(error.message, HasSubstr("found status 1999"));
}

}  // namespace
}  // namespace lockstep::nrt
