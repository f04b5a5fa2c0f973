#include "runtime/device/agreement.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>

#include "runtime/graph/agree.h"

namespace lockstep::device {
namespace {

/// Accumulates 64-bit words with one multiplication each: hashing a step's facts takes well under a microsecond.
class WordHash {
 public:
  void add(uint64_t word) {
    state_ = (state_ ^ word) * 0x9e3779b97f4a7c15ull;
    state_ ^= state_ >> 32;
  }

  void add(std::span<const int32_t> values) {
    add(static_cast<uint64_t>(values.size()));
    for (int32_t value : values) add(static_cast<uint64_t>(static_cast<uint32_t>(value)));
  }

  uint64_t value() const {
    uint64_t x = state_;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
  }

 private:
  uint64_t state_ = 0xcbf29ce484222325ull;
};

std::vector<uint64_t> checksums_of(std::span<const std::byte> payloads, int ranks, int64_t slots) {
  std::vector<uint64_t> checksums;
  for (int rank = 0; rank < ranks; ++rank) {
    checksums.push_back(payload_checksum(payloads.data() + rank * agreement_payload_bytes(slots)));
  }
  return checksums;
}

}  // namespace

uint64_t agreement_checksum(const AgreedFacts& facts) {
  WordHash hash;
  hash.add(facts.step);
  hash.add(facts.last_id);
  hash.add(facts.length);
  hash.add(facts.output_index);
  hash.add(facts.parameter_hash);
  const auto sampled = static_cast<size_t>(std::min(facts.hidden_row_bytes, graph::kAgreedBytes));
  for (int64_t row = 0; row < facts.hidden_rows; ++row) {
    uint64_t words[2] = {0, 0};
    if (sampled > 0) std::memcpy(words, facts.hidden + row * facts.hidden_stride, sampled);
    hash.add(words[0]);
    hash.add(words[1]);
  }
  return hash.value();
}

void write_agreement_payload(uint64_t checksum, std::span<const int32_t> stop_request, std::span<std::byte> dst) {
  LOCKSTEP_CHECK(static_cast<int64_t>(dst.size()) == agreement_payload_bytes(stop_request.size()), dst.size(),
                 stop_request.size());
  std::memcpy(dst.data(), &checksum, sizeof checksum);
  if (!stop_request.empty()) std::memcpy(dst.data() + 8, stop_request.data(), stop_request.size_bytes());
}

uint64_t payload_checksum(const std::byte* payload) {
  uint64_t checksum = 0;
  std::memcpy(&checksum, payload, sizeof checksum);
  return checksum;
}

bool payload_requests_stop(const std::byte* payload, int64_t slot) {
  int32_t request = 0;
  std::memcpy(&request, payload + 8 + 4 * slot, sizeof request);
  return request != 0;
}

bool payloads_agree(std::span<const std::byte> payloads, int ranks, int64_t slots) {
  const int64_t bytes = agreement_payload_bytes(slots);
  LOCKSTEP_CHECK(static_cast<int64_t>(payloads.size()) == ranks * bytes, payloads.size(), ranks, bytes);
  for (int rank = 1; rank < ranks; ++rank) {
    if (payload_checksum(payloads.data() + rank * bytes) != payload_checksum(payloads.data())) return false;
  }
  return true;
}

std::vector<int> find_disagreement(std::span<const uint64_t> checksums) {
  int64_t most = 0;
  uint64_t expected = 0;
  bool tie = false;
  for (size_t i = 0; i < checksums.size(); ++i) {
    if (std::find(checksums.begin(), checksums.begin() + i, checksums[i]) != checksums.begin() + i) continue;
    const int64_t count = std::count(checksums.begin(), checksums.end(), checksums[i]);
    tie = count == most || (tie && count < most);
    if (count > most) {
      most = count;
      expected = checksums[i];
    }
  }
  std::vector<int> differing;
  for (size_t rank = 0; rank < checksums.size(); ++rank) {
    if (tie || checksums[rank] != expected) differing.push_back(static_cast<int>(rank));
  }
  return differing;
}

Error disagreement_error(std::string_view component, std::span<const int32_t> step, std::span<const std::byte> payloads,
                         int ranks, int64_t slots) {
  const std::vector<uint64_t> checksums = checksums_of(payloads, ranks, slots);
  const std::vector<int> differing = find_disagreement(checksums);
  std::vector<std::string> found;
  for (int rank : differing) found.push_back(fmt::format("{:016x}", checksums[rank]));
  Error error{ErrorKind::kFailedPrecondition,
              fmt::format("[{}] ranks disagree at schedule {} step {}: found checksums {} on ranks {}, expected one; "
                          "check that these ranks run the same program, options and checkpoint",
                          component, step[0], step[1], fmt::join(found, ", "), fmt::join(differing, ", "))};
  if (differing.size() == 1) error.origin_rank = differing.front();
  return error;
}

}  // namespace lockstep::device
