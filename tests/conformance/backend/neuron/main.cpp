// Runs the suite over the Neuron backend, without the cases that ask for what it does not offer.
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace {

struct NotApplicable {
  std::string cases;  // of GoogleTest's filter
  const char* why;
};

const std::vector<NotApplicable> kNotApplicable = {};

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (testing::GTEST_FLAG(filter) == "*") {
    std::string filter = "*Neuron*-";
    for (const NotApplicable& cases : kNotApplicable) filter += cases.cases + ":";
    testing::GTEST_FLAG(filter) = filter;
  }
  return RUN_ALL_TESTS();
}
