#include "tests/model/on_cuda.h"

#include <fmt/format.h>

#include <cstdlib>
#include <utility>

#include "tests/cuda_stand_in/driver_under_test.h"

namespace lockstep::model {

std::filesystem::path goldens_folder() {
  const char* named = std::getenv("LOCKSTEP_GOLDENS");
  return named == nullptr ? LOCKSTEP_GOLDENS_DIR : named;
}

GroupOptions on_stand_in(GroupOptions options) {
  options.backend = "cuda";
  options.backend_options = {{"cuda-driver", cu::driver_under_test(LOCKSTEP_STAND_IN_CUDA)},
                             {"nccl", LOCKSTEP_STAND_IN_NCCL}};
  return options;
}

std::string name_of(const ::testing::TestParamInfo<ModelAndRanks>& tested) {
  return fmt::format("{}_tp{}", std::get<0>(tested.param), std::get<1>(tested.param));
}

void expect_golden_on_stand_in(const Golden& golden, GroupOptions options) {
  const GoldenModel model(golden, {});
  options.logits = actors::Logits::kWanted;
  const auto answers = run_rows(model.path(), on_stand_in(std::move(options)), golden.rows());
  ASSERT_TRUE(answers.has_value()) << answers.error().message;
  expect_golden(golden, golden.rows(), answers.value().rows);
}

}  // namespace lockstep::model
