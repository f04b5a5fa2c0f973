// Runs the suite over the Neuron backend, without cases of unsupported features.
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace {

struct NotApplicable {
  std::string cases;  // of GoogleTest's filter
  const char* why;
};

const std::vector<NotApplicable> kNotApplicable = {
    {"*AttentionOperations.AttendOverLengths*:*AttentionOperations.MapQueryHeads*:*AttentionOperations.DecodeOneRow*:"
     "*AttentionOperations.CapScores*:*Windows.DecodeStepsOver*:*Windows.CopyASlot*:*WindowedAttention.Conforms*:"
     "*WholeSteps.GiveTheLogits*:*WholeSteps.DoNotDependOnTheChunk*:*WholeSteps.DoNotDependOnBatchMates*",
     "chunks with rows of several slots (rows_of_one_slot); neuron_interpreter_test has the same with one"},
    {"*CollectiveOperations.*:*WholeSteps.DoNotDependOnTheNumberOfRanks*:*BackendContract.RefusesToCompileForRanks*:"
     "*Experts.SumToTheSame*",
     "ranks that are threads, each with its own graph; here a rank is a process: neuron_end_to_end_test"},
    {"*CodedProducts.MultiplyIn8BitIntegers*",
     "a weight in groups of two widths; neuron_interpreter_test has products in 8 bits"},
    {"*AttentionOperations.NeverLookBeyond*:*DenseOperations.CarryInfinity*:*Experts.SkipWhatTheRouteLeavesOut*",
     "a number that is not finite ends a step with status 1003, and masked rows and experts are computed, with the "
     "weight 0"},
    {"*BackendContract.CommitsCacheMemory*", "a core's memory is reserved as a whole"},
};

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
