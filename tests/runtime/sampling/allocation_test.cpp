// A separate program, because it replaces operator new.
#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "runtime/sampling/sampling.h"
#include "tests/allocation_count.h"

namespace lockstep::sampling {
namespace {

TEST(Choose, DoesNotAllocate) {
  constexpr size_t kVocabulary = 50000;
  std::vector<float> logits(kVocabulary);
  for (size_t i = 0; i < kVocabulary; ++i) logits[i] = 12.0f * uniform(3, static_cast<uint32_t>(i));
  const std::vector<uint8_t> seen(kVocabulary, 1);
  Scratch scratch(kVocabulary);
  std::vector<float> scores(kVocabulary);
  const Parameters cases[] = {{},
                              {.do_sample = true,
                               .temperature = 0.7f,
                               .top_k = 40000,
                               .top_p = 0.95f,
                               .min_p = 0.001f,
                               .repetition_penalty = 1.1f,
                               .typical_p = 0.9f,
                               .epsilon_cutoff = 1e-5f,
                               .eta_cutoff = 1e-4f}};
  const int64_t before = allocations_of_this_thread();
  for (const Parameters& parameters : cases) {
    choose(logits, seen, parameters, 0, scratch, std::array{7, 8});
    processed_scores(logits, seen, parameters, scores, scratch);
  }
  EXPECT_EQ(allocations_of_this_thread(), before);
  EXPECT_GT(before, 0);  // the counter counts
}

}  // namespace
}  // namespace lockstep::sampling
