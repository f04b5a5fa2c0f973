// Detects ranks with diverged states. In every step each rank gathers one payload from all ranks:
//
//   ┌──────────────┬──────────────────────────────┐
//   │ checksum u64 │ stop_request i32 [slots]     │     all ranks apply rank 0's stop requests
//   └──────────────┴──────────────────────────────┘
//
// The checksum covers everything that must be the same on all ranks: the step's number, the tokens so far, the slots'
// parameters and a sample of the replicated hidden state. Backends share these functions; they are pure and do not
// allocate, except for the error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "runtime/core/result.h"

namespace lockstep::device {

/// The state that the ranks must agree on in one step. Borrows everything.
struct AgreedFacts {
  std::span<const int32_t> step;            // [2]: schedule, step
  std::span<const int32_t> last_id;         // [slots]
  std::span<const int32_t> length;          // [slots]
  std::span<const int32_t> output_index;    // [slots]
  std::span<const int32_t> parameter_hash;  // [slots]
  const std::byte* hidden = nullptr;        // row i starts at hidden + i · hidden_stride
  int64_t hidden_rows = 0;                  // rows with values; later rows are not sampled
  int64_t hidden_stride = 0;                // bytes from one row to the next
  int64_t hidden_row_bytes = 0;             // bytes of one row; at most graph::kAgreedBytes count
};

/// The fingerprint of `facts`; equal facts have equal fingerprints.
uint64_t agreement_checksum(const AgreedFacts& facts);

/// Bytes of one rank's payload.
constexpr int64_t agreement_payload_bytes(int64_t slots) { return 8 + 4 * slots; }

/// Writes a payload; `dst` has `agreement_payload_bytes(stop_request.size())` bytes.
void write_agreement_payload(uint64_t checksum, std::span<const int32_t> stop_request, std::span<std::byte> dst);

/// The checksum of the payload that starts at `payload`.
uint64_t payload_checksum(const std::byte* payload);
/// Whether the payload that starts at `payload` requests a stop of `slot`.
bool payload_requests_stop(const std::byte* payload, int64_t slot);

/// Whether all `ranks` payloads, one after the other and each for `slots`, have the same checksum.
bool payloads_agree(std::span<const std::byte> payloads, int ranks, int64_t slots);

/// The ranks whose checksum differs from the most frequent one; all ranks when no value is the most frequent. Empty
/// when all agree.
std::vector<int> find_disagreement(std::span<const uint64_t> checksums);

/// The `kFailedPrecondition` error of a step with differing payloads; it names the differing ranks. `component` starts
/// the message, such as "runtime/backends/cpu"; `step` is i32 [2].
Error disagreement_error(std::string_view component, std::span<const int32_t> step, std::span<const std::byte> payloads,
                         int ranks, int64_t slots);

}  // namespace lockstep::device
