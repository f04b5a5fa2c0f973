// The records of a journal as values, and their encoding as Cap'n Proto messages (row_record.capnp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "runtime/core/result.h"

namespace lockstep::journal {

/// A named property of a job.
struct Fact {
  std::string name;
  std::string value;

  friend bool operator==(const Fact&, const Fact&) = default;
};

/// The job that a journal belongs to.
struct JobDescription {
  uint64_t rows = 0;
  std::vector<Fact> facts;  // must be the same in every start of the job
  std::vector<Fact> notes;  // results of the first start, reused by later ones

  /// The value of a note; empty when there is none.
  std::optional<std::string> note(std::string_view name) const;

  friend bool operator==(const JobDescription&, const JobDescription&) = default;
};

struct TokenLogprob {
  int32_t id = 0;
  float logprob = 0.0f;

  friend bool operator==(const TokenLogprob&, const TokenLogprob&) = default;
};

struct RowAnswer {
  std::vector<int32_t> tokens;
  std::string text;
  std::string finish_reason;
  std::optional<double> score;                       // of a beam
  std::vector<float> logprobs;                       // [tokens], or none
  std::vector<std::vector<TokenLogprob>> likeliest;  // [tokens][n], or none

  friend bool operator==(const RowAnswer&, const RowAnswer&) = default;
};

/// A finished row: its answers, or the error instead.
struct RowResult {
  uint64_t row = 0;  // index in the job
  std::vector<RowAnswer> answers;
  std::string error;

  friend bool operator==(const RowResult&, const RowResult&) = default;
};

/// One record: the first is a job, all others are rows.
using Record = std::variant<JobDescription, std::vector<RowResult>>;

/// The version of the format; other versions are rejected.
inline constexpr uint32_t kVersion = 1;

/// The bytes of a record; their number is a multiple of 8.
std::vector<std::byte> encode(const JobDescription& job);
std::vector<std::byte> encode(std::span<const RowResult> rows);

/// Decodes a record. `payload` is aligned to 8 bytes. Fails with `kInvalidArgument` for a malformed message, with
/// `kUnsupported` for a job of another version.
Result<Record> decode(std::span<const std::byte> payload);

/// Decodes only row `index` of a record of rows.
Result<RowResult> decode_row(std::span<const std::byte> payload, size_t index);

/// Fails with `kInvalidArgument` naming the first fact that differs between the recorded and the requested job.
Result<void> check_same_job(const JobDescription& recorded, const JobDescription& asked);

}  // namespace lockstep::journal
