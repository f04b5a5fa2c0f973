#include "runtime/backends/neuron/nrt/library.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::nrt {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(Library, ThatIsNotThereIsAnErrorThatSaysWhatToInstall) {
  const auto library = Library::open("/nowhere/libnrt.so.1");
  ASSERT_FALSE(library.has_value());
  EXPECT_EQ(library.error().kind, ErrorKind::kUnavailable);
  EXPECT_THAT(library.error().message, AllOf(HasSubstr("/nowhere/libnrt.so.1"), HasSubstr("aws-neuronx-runtime-lib"),
                                             HasSubstr("--neuron-runtime")));
}

TEST(Library, ThatIsAnotherOneNamesTheFunctionsThatItLacks) {
  const auto library = Library::open("libm.so.6");
  ASSERT_FALSE(library.has_value());
  EXPECT_EQ(library.error().kind, ErrorKind::kUnavailable);
  EXPECT_THAT(library.error().message,
              AllOf(HasSubstr("found no nrt_get_version, nrt_init"), HasSubstr("nrt_execute")));
}

}  // namespace
}  // namespace lockstep::nrt
