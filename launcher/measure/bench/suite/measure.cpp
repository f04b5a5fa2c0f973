#include "launcher/measure/bench/suite/measure.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "launcher/measure/bench/suite/file_cache.h"
#include "launcher/measure/sweep/launch_words.h"
#include "launcher/measure/sweep/runner.h"
#include "runtime/core/atomic_file.h"

namespace lockstep::launcher::suite {
namespace {

using Json = nlohmann::ordered_json;

/// Bad usage and what is not supported: the program, or this build of it, cannot do what the row asks.
bool is_refusal(int code) {
  return code == exit_code(ErrorKind::kInvalidArgument) || code == exit_code(ErrorKind::kUnsupported);
}

void fail(ChildRecord& record, ChildRecord::Status status, std::string reason) {
  record.status = status;
  record.reason = std::move(reason);
}

/// The program's result with what the suite itself saw, under "suite".
std::optional<std::string> with_own_facts(const std::string& text, const ChildRecord& record,
                                          const std::optional<FileReading>& files) {
  Json document = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!document.is_object()) return std::nullopt;
  document["suite"]["seconds"] = record.seconds;
  if (files) document["suite"]["files"] = {{"bytes", files->bytes}, {"read_s", files->seconds}};
  return document.dump(-1, ' ', false, Json::error_handler_t::replace);
}

void take_result(ChildRecord& record, const process::ChildOutcome& outcome, const std::filesystem::path& json,
                 const std::optional<FileReading>& files) {
  record.code = outcome.shell_code();
  record.seconds = to_seconds(outcome.took);
  if (!outcome.succeeded()) {
    const std::string why = reason_of(outcome.errors);
    const bool refused = outcome.end == process::ChildOutcome::End::kItself && is_refusal(record.code);
    return fail(record, refused ? ChildRecord::Status::kRefused : ChildRecord::Status::kFailed,
                fmt::format("{}{}{}", to_string(outcome), why.empty() ? "" : ": ", why));
  }
  const auto text = read_text_file(json, "--json");
  const auto document = text.has_value() ? with_own_facts(text.value(), record, files) : std::nullopt;
  if (!document) return fail(record, ChildRecord::Status::kFailed, "it ended well and wrote no result");
  record.document = *document;
}

/// Puts the page cache as `files` wants it, and times reading all files in that state.
Result<std::optional<FileReading>> prepare(Files files, const std::filesystem::path& folder, int threads) {
  if (files == Files::kAsTheyAre) return std::optional<FileReading>();
  if (files == Files::kCold) {
    LOCKSTEP_TRY_VOID(drop_from_cache(folder));
  } else {
    LOCKSTEP_TRY_VOID(read_files(folder, threads));
  }
  LOCKSTEP_TRY(const FileReading reading, read_files(folder, threads));
  if (files == Files::kCold) LOCKSTEP_TRY_VOID(drop_from_cache(folder));
  return std::optional(reading);
}

Result<ChildRecord> run_turn(const Measurement& measurement, const Turn& turn, const MeasureOptions& options) {
  const Side& side = measurement.sides[turn.side];
  const std::filesystem::path json = options.folder / fmt::format("running-{}-{}.json", measurement.id, side.name);
  std::error_code ignored;
  std::filesystem::remove(json, ignored);
  process::ChildCommand command{.words = side.words,
                                .environment = options.environment,
                                .output = process::ChildStream::kDiscard,
                                .errors = process::ChildStream::kCapture};
  command.words.insert(command.words.end(), {"--json", json.string()});
  ChildRecord record{.side = side.name, .round = turn.round, .command = quoted(command.words)};
  const auto files = prepare(side.files, measurement.files, options.threads);
  if (!files.has_value()) {
    fail(record, ChildRecord::Status::kRefused, files.error().message);
    return record;
  }
  const process::ChildLimits limits{
      .deadline = std::chrono::duration_cast<Duration>(std::chrono::duration<double>(measurement.deadline_s))};
  const Result<process::ChildOutcome> outcome = process::run_child(command, limits, options.stop);
  if (options.stop != nullptr && options.stop->is_raised()) {
    std::filesystem::remove(json, ignored);
    return Error{ErrorKind::kCancelled, "[launcher/bench] interrupted; the report holds what was measured until then"};
  }
  if (outcome.has_value()) {
    take_result(record, outcome.value(), json, files.value());
  } else {  // no such program
    fail(record, ChildRecord::Status::kFailed, outcome.error().message);
    record.code = exit_code(outcome.error().kind);
  }
  std::filesystem::remove(json, ignored);
  return record;
}

}  // namespace

std::vector<Turn> turns_of(const Measurement& measurement) {
  std::vector<Turn> turns;
  for (int round = 0; round < measurement.rounds; ++round) {
    for (size_t side = 0; side < measurement.sides.size(); ++side) turns.push_back({round, side});
  }
  return turns;
}

Result<std::vector<ChildRecord>> measure(const Measurement& measurement, const MeasureOptions& options,
                                         const Progress& progress) {
  std::vector<ChildRecord> records;
  if (measurement.absence) return records;
  for (const Turn& turn : turns_of(measurement)) {
    LOCKSTEP_TRY(ChildRecord record, run_turn(measurement, turn, options));
    const bool worked = record.status == ChildRecord::Status::kOk;
    progress(fmt::format("{}, round {} of {}, {}: {}; took {:.1f} s", measurement.id, turn.round + 1,
                         measurement.rounds, record.side, worked ? "ok" : record.reason.substr(0, 160),
                         record.seconds));
    records.push_back(std::move(record));
    if (!worked) break;
  }
  return records;
}

}  // namespace lockstep::launcher::suite
