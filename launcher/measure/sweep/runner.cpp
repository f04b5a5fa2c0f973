#include "launcher/measure/sweep/runner.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <time.h>

#include <algorithm>
#include <deque>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "launcher/measure/sweep/groups.h"
#include "launcher/measure/sweep/results.h"
#include "runtime/core/atomic_file.h"
#include "runtime/core/hash.h"

namespace lockstep::launcher {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kShownLines = 6;                // of a failed program's output
constexpr std::streamoff kReadOutput = 1 << 16;  // bytes at the end of the output that are searched for the reason
constexpr int kLaunchFailed = 4;                 // exit code for a wrong launch or machine
constexpr int kInternal = 1;
constexpr std::string_view kOwnMessage = "lockstep: ";

double unix_time() {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

PointRecord blank_record(const PlannedPoint& point, const SweepRun& run) {
  return {
      .key = point.key, .shape = point.shape, .variant = run.variant, .unix_time = unix_time(), .machine = run.machine};
}

PointRecord impossible_record(const PlannedPoint& point, const SweepRun& run) {
  PointRecord record = blank_record(point, run);
  record.status = PointStatus::kImpossible;
  record.code = exit_code(point.impossible->kind);
  record.message = point.impossible->message;
  return record;
}

/// The path is of this group of this point alone, so that no other run uses files that a killed run left.
std::filesystem::path running_file(const PlannedPoint& point, const SweepRun& run, size_t group,
                                   std::string_view extension) {
  const std::string number = point.shape.replicas > 1 ? fmt::format("-{}", group) : "";
  return run.folder / fmt::format("running-{:016x}{}.{}", Fingerprint().add(point.key).value(), number, extension);
}

std::optional<std::string> read_if_there(const std::filesystem::path& path) {
  auto text = read_text_file(path, "--json");
  if (!text.has_value()) return std::nullopt;
  return std::move(text).value();
}

/// The files of a point while it runs. The destructor removes them, except those that `keep_output` renames.
class PointFiles {
 public:
  PointFiles(const PlannedPoint& point, const SweepRun& run) : kept_(run.folder / output_name(point)) {
    for (size_t group = 0; group < point.shares.size(); ++group) {
      groups_.push_back({running_file(point, run, group, "json"), running_file(point, run, group, "txt")});
    }
    remove();
  }
  ~PointFiles() { remove(); }
  PointFiles(const PointFiles&) = delete;
  PointFiles& operator=(const PointFiles&) = delete;

  const std::filesystem::path& json(size_t group) const { return groups_.at(group).json; }
  const std::filesystem::path& output(size_t group) const { return groups_.at(group).output; }

  /// The result of the only group, or the list of all; empty if one has none.
  std::optional<std::string> document() const {
    std::vector<std::string> documents;
    for (const GroupFiles& group : groups_) {
      auto document = read_if_there(group.json);
      if (!document) return std::nullopt;
      documents.push_back(*std::move(document));
    }
    return documents.size() == 1 ? documents.front() : fmt::format("[{}]", fmt::join(documents, ","));
  }

  /// The end of a group's output.
  std::string output_end(size_t group) const {
    std::ifstream file(output(group), std::ios::binary | std::ios::ate);
    const auto size = static_cast<std::streamoff>(file.tellg());
    if (size <= 0) return "";
    file.seekg(std::max<std::streamoff>(0, size - kReadOutput));
    return {std::istreambuf_iterator<char>(file), {}};
  }

  /// Removes the output that an earlier run of the point kept.
  void remove_kept() const {
    std::error_code ignored;
    std::filesystem::remove(kept_, ignored);
  }

  /// Keeps a group's output and returns its file's name; empty if that fails.
  std::string keep_output(size_t group) const {
    std::error_code failed;
    std::filesystem::rename(output(group), kept_, failed);
    return failed ? "" : kept_.filename().string();
  }

 private:
  struct GroupFiles {
    std::filesystem::path json, output;
  };

  void remove() const {
    std::error_code ignored;
    for (const GroupFiles& group : groups_) {
      std::filesystem::remove(group.json, ignored);
      std::filesystem::remove(group.output, ignored);
    }
  }

  const std::filesystem::path kept_;
  std::vector<GroupFiles> groups_;
};

bool is_result(const Json& json, const PointShape& shape) {
  return json.is_object() && json.value("world_size", 0) == shape.tp && json.contains("decode");
}

/// The document of bench without its blanks, or the list of those of the replicas, if it is valid and has the requested
/// size.
std::optional<std::string> checked_document(const std::optional<std::string>& document, const PointShape& shape) {
  if (!document) return std::nullopt;
  const Json json = Json::parse(*document, nullptr, /*allow_exceptions=*/false);
  const auto is_group = [&](const Json& group) { return is_result(group, shape); };
  const bool is_good = shape.replicas == 1 ? is_result(json, shape)
                                           : json.is_array() && std::ssize(json) == shape.replicas &&
                                                 std::ranges::all_of(json, is_group);
  return is_good ? std::optional(json.dump()) : std::nullopt;
}

process::ChildCommand group_command(const PlannedPoint& point, const SweepRun& run, const PointFiles& files,
                                    size_t group, std::optional<int> barrier) {
  return {.words = group_words(run.launch, run.bench, point.shape, files.json(group), barrier),
          .environment = run.environment,
          .output = process::ChildStream::kLog,
          .errors = process::ChildStream::kLog,
          .log = files.output(group),
          .hardware_threads = point.shares.at(group).hardware_threads};
}

Result<PointRecord> run_point(const PlannedPoint& point, const SweepRun& run, const process::ChildStop& stop) {
  if (point.impossible) return impossible_record(point, run);
  const PointFiles files(point, run);
  Result<GroupsOutcome> ended = run_groups(
      point.shares.size(),
      [&](size_t group, std::optional<int> barrier) { return group_command(point, run, files, group, barrier); },
      {.deadline = run.point_deadline}, stop);
  if (!ended.has_value()) {  // no such launcher: the next point may have another
    PointRecord record = blank_record(point, run);
    record.status = PointStatus::kFailed;
    record.code = kLaunchFailed;
    record.message = ended.error().message;
    return record;
  }
  process::ChildOutcome& outcome = ended.value().outcome;
  if (outcome.end == process::ChildOutcome::End::kStop || stop.is_raised()) {
    return Error{ErrorKind::kCancelled,
                 "[launcher/sweep] interrupted; what was measured is in the journal: start the same command again to "
                 "go on"};
  }
  const size_t deciding = ended.value().group;
  files.remove_kept();
  outcome.errors = files.output_end(deciding);
  PointRecord record = record_of(point, run, outcome, files.document());
  if (record.status != PointStatus::kOk) record.output = files.keep_output(deciding);
  return record;
}

/// Seconds in words: "40 s", "12 min", "3.5 h".
std::string span_in_words(double seconds) {
  if (seconds < 90) return fmt::format("{:.0f} s", seconds);
  if (seconds < 5400) return fmt::format("{:.0f} min", seconds / 60);
  return fmt::format("{:.1f} h", seconds / 3600);
}

}  // namespace

std::string output_name(const PlannedPoint& point) {
  const PointShape& shape = point.shape;
  const std::string replicas = shape.replicas > 1 ? fmt::format("{}x", shape.replicas) : "";
  return fmt::format("failed-{}tp{}-batch{}-prompt{}-new{}-{:016x}.txt", replicas, shape.tp, shape.batch,
                     shape.prompt_tokens, shape.new_tokens, Fingerprint().add(point.key).value());
}

std::string reason_of(std::string_view errors) {
  std::deque<std::string> lines;
  std::string own;
  for (size_t begin = 0; begin < errors.size();) {
    const size_t end = std::min(errors.find('\n', begin), errors.size());
    const std::string line(errors.substr(begin, end - begin));
    if (const size_t at = line.find(kOwnMessage); at != std::string::npos) own = line.substr(at + kOwnMessage.size());
    if (line.find_first_not_of(" \t\r-") != std::string::npos) lines.push_back(line);
    if (lines.size() > kShownLines) lines.pop_front();
    begin = end + 1;
  }
  return own.empty() ? fmt::format("{}", fmt::join(lines, "\n")) : own;
}

PointRecord record_of(const PlannedPoint& point, const SweepRun& run, const process::ChildOutcome& outcome,
                      std::optional<std::string> document) {
  PointRecord record = blank_record(point, run);
  record.seconds = to_seconds(outcome.took);
  const std::string times = point.shape.replicas > 1 ? fmt::format("{} times at once: ", point.shape.replicas) : "";
  record.command = times + quoted(group_words(run.launch, run.bench, point.shape, running_file(point, run, 0, "json")));
  record.code = outcome.shell_code();
  const std::optional<std::string> good = checked_document(document, point.shape);
  if (outcome.succeeded() && good) {
    record.result = *good;
    return record;
  }
  const std::string reason = reason_of(outcome.errors);
  record.message = fmt::format("{}{}{}", to_string(outcome), reason.empty() ? "" : ": ", reason);
  if (outcome.end == process::ChildOutcome::End::kDeadline) {
    record.status = PointStatus::kDeadline;
    record.code = exit_code(ErrorKind::kDeadlineExceeded);
    return record;
  }
  record.status = PointStatus::kFailed;
  if (outcome.succeeded()) {
    record.code = kLaunchFailed;
    record.message = fmt::format(
        "the program ended well without a result of {} ranks; does the launch template start "
        "what follows it?",
        point.shape.tp);
  } else if (record.code == kInternal && outcome.errors.find(kOwnMessage) == std::string::npos) {
    record.code = kLaunchFailed;  // the launcher's own code 1
  }
  return record;
}

std::string outcome_in_words(const PointRecord& record) {
  if (record.status != PointStatus::kOk) {
    const std::string first = record.message.substr(0, record.message.find('\n'));
    return fmt::format("{} (exit code {}): {}{}", to_string(record.status), record.code, first,
                       output_in_words(record));
  }
  const Result<PointResult> result = parse_result(record.result);
  if (!result.has_value()) return result.error().message;
  return fmt::format("{} tokens/s, first after {} ms", short_number(result.value().decode.median),
                     short_number(result.value().ttft.median * 1e3));
}

Result<std::vector<PointRecord>> run_points(const std::vector<PlannedPoint>& points, const SweepRun& run,
                                            Journal& journal, const process::ChildStop& stop,
                                            const Progress& progress) {
  std::vector<PointRecord> records;
  double spent = 0, started = 0;
  auto left = static_cast<double>(std::ranges::count_if(points, [](const auto& point) { return !point.impossible; }));
  for (size_t i = 0; i < points.size(); ++i) {
    const std::string name = fmt::format("{} of {}: {}", i + 1, points.size(), to_string(points[i].shape));
    if (!points[i].impossible) progress(name + " …");
    LOCKSTEP_TRY(const PointRecord record, run_point(points[i], run, stop));
    LOCKSTEP_TRY_VOID(journal.append(record));
    records.push_back(record);
    std::string line = fmt::format("{}: {}", name, outcome_in_words(record));
    if (!points[i].impossible) {
      spent += record.seconds;
      started += 1;
      left -= 1;
      line += fmt::format("; took {}", span_in_words(record.seconds));
      if (left > 0) line += fmt::format(", about {} left", span_in_words(spent / started * left));
    }
    progress(line);
  }
  return records;
}

}  // namespace lockstep::launcher
