#include "runtime/device/agreement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

namespace lockstep::device {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// Facts with their memory.
struct Facts {
  std::vector<int32_t> step = {3, 7}, last_id = {1, 2}, length = {4, 5}, output_index = {0, 1}, hash = {8, 9};
  std::vector<float> hidden = std::vector<float>(2 * 6, 0.5f);

  uint64_t checksum() const {
    return agreement_checksum({.step = step,
                               .last_id = last_id,
                               .length = length,
                               .output_index = output_index,
                               .parameter_hash = hash,
                               .hidden = reinterpret_cast<const std::byte*>(hidden.data()),
                               .hidden_rows = 2,
                               .hidden_stride = 24,
                               .hidden_row_bytes = 24});
  }
};

TEST(AgreementChecksum, ChangesWithEveryFact) {
  const uint64_t same = Facts().checksum();
  EXPECT_EQ(Facts().checksum(), same);
  const std::vector<std::function<void(Facts&)>> changes = {
      [](Facts& f) { f.step[1] = 8; },         [](Facts& f) { f.last_id[0] = 2; },
      [](Facts& f) { f.length[1] = 6; },       [](Facts& f) { f.output_index[0] = 1; },
      [](Facts& f) { f.hash[1] = -9; },        [](Facts& f) { std::swap(f.last_id[0], f.last_id[1]); },
      [](Facts& f) { f.hidden[3] = 0.5001f; }, [](Facts& f) { f.hidden[6] = 0.5001f; },
  };
  for (size_t i = 0; i < changes.size(); ++i) {
    Facts facts;
    changes[i](facts);
    EXPECT_NE(facts.checksum(), same) << "change " << i;
  }
  Facts beyond;
  beyond.hidden[4] = 9.0f;  // the fifth element of a row is not sampled
  EXPECT_EQ(beyond.checksum(), same);
}

TEST(FindDisagreement, NamesTheRanksThatDifferFromMost) {
  EXPECT_THAT(find_disagreement(std::vector<uint64_t>{5}), IsEmpty());
  EXPECT_THAT(find_disagreement(std::vector<uint64_t>{5, 5, 5}), IsEmpty());
  EXPECT_THAT(find_disagreement(std::vector<uint64_t>{5, 5, 6}), ElementsAre(2));
  EXPECT_THAT(find_disagreement(std::vector<uint64_t>{6, 5, 5}), ElementsAre(0));
  EXPECT_THAT(find_disagreement(std::vector<uint64_t>{5, 6, 7, 5, 5}), ElementsAre(1, 2));
}

TEST(FindDisagreement, NamesAllRanksWhereNobodyCanBeBlamed) {
  EXPECT_THAT(find_disagreement(std::vector<uint64_t>{5, 6}), ElementsAre(0, 1));
  EXPECT_THAT(find_disagreement(std::vector<uint64_t>{5, 6, 6, 5}), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(find_disagreement(std::vector<uint64_t>{5, 6, 7, 7}), ElementsAre(0, 1));
}

TEST(AgreementPayload, CarriesTheChecksumAndTheStopRequests) {
  const std::vector<int32_t> stop = {0, 1, 0};
  std::vector<std::byte> payloads(static_cast<size_t>(2 * agreement_payload_bytes(3)));
  const std::span<std::byte> all(payloads);
  write_agreement_payload(0x1234567890abcdefull, stop, all.first(20));
  write_agreement_payload(0x1234567890abcdefull, stop, all.last(20));
  EXPECT_EQ(payload_checksum(payloads.data()), 0x1234567890abcdefull);
  EXPECT_FALSE(payload_requests_stop(payloads.data(), 0));
  EXPECT_TRUE(payload_requests_stop(payloads.data(), 1));
  EXPECT_TRUE(payloads_agree(payloads, 2, 3));
  write_agreement_payload(1, stop, all.last(20));
  EXPECT_FALSE(payloads_agree(payloads, 2, 3));
}

TEST(DisagreementError, NamesScheduleStepRanksAndChecksums) {
  std::vector<std::byte> payloads(3 * 8);
  for (int rank = 0; rank < 3; ++rank) {
    write_agreement_payload(rank == 1 ? 0xbad : 0x600d, {},
                            std::span(payloads).subspan(static_cast<size_t>(rank) * 8, 8));
  }
  const Error error = disagreement_error("a/component", std::vector<int32_t>{4, 11}, payloads, 3, 0);
  EXPECT_EQ(error.kind, ErrorKind::kFailedPrecondition);
  EXPECT_THAT(error.message, HasSubstr("[a/component] ranks disagree at schedule 4 step 11"));
  EXPECT_THAT(error.message, HasSubstr("0000000000000bad on ranks 1, expected one"));
  EXPECT_EQ(error.origin_rank, 1);
}

}  // namespace
}  // namespace lockstep::device
