#include "launcher/measure/sweep/journal.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>

#include "runtime/core/atomic_file.h"
#include "runtime/core/json_depth.h"

namespace lockstep::launcher {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kName = "lockstep sweep";
constexpr int kFormat = 1;

constexpr std::pair<PointStatus, std::string_view> kStatuses[] = {{PointStatus::kOk, "ok"},
                                                                  {PointStatus::kFailed, "failed"},
                                                                  {PointStatus::kImpossible, "impossible"},
                                                                  {PointStatus::kDeadline, "deadline"}};

std::string line_of(const Json& json) {
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

ModelIdentity model_of(const Json& json) {
  return {.path = json.at("path"), .random_weights = json.at("random_weights"), .config_hash = json.at("config_hash")};
}

PointStatus status_of(const std::string& text) {
  for (const auto& [status, name] : kStatuses) {
    if (name == text) return status;
  }
  throw std::out_of_range("status " + text);
}

PointRecord record_of(const Json& json) {
  const Json& variant = json.at("variant");
  const Json& machine = json.at("machine");
  PointRecord record{.key = json.at("key"),
                     .shape = {.tp = json.at("tp"),
                               .batch = json.at("batch_size"),
                               .prompt_tokens = json.at("prompt_tokens"),
                               .new_tokens = json.at("new_tokens"),
                               .replicas = json.value("replicas", 1)},  // older journals lack it
                     .variant = {.version = variant.at("version"),
                                 .launch = variant.at("launch"),
                                 .options = variant.at("options").get<std::vector<std::string>>()},
                     .status = status_of(json.at("status")),
                     .code = json.at("code"),
                     .message = json.at("message"),
                     .seconds = json.at("seconds"),
                     .unix_time = json.at("unix_time"),
                     .machine = {.host = machine.at("host"), .cpu = machine.at("cpu"), .cores = machine.at("cores")},
                     .command = json.at("command"),
                     .output = json.value("output", "")};  // older journals lack it
  if (!json.at("result").is_null()) record.result = json.at("result").dump();
  return record;
}

Error cannot_write(const std::filesystem::path& path, int code) {
  return {ErrorKind::kInvalidArgument, fmt::format("[launcher/sweep] cannot write {}: {}; name a folder on a disk that "
                                                   "can be written and has room",
                                                   path.string(), std::strerror(code))};
}

Error damaged(const std::filesystem::path& path, size_t line, std::string_view why) {
  return {
      ErrorKind::kInvalidArgument,
      fmt::format("[launcher/sweep] cannot read {}: line {} is not a line of a journal: {}; remove that line, or use "
                  "another --out",
                  path.string(), line, why)};
}

/// Adds one whole line to `journal`.
void take_line(JournalText& journal, std::string_view line) {
  if (nests_too_deep(line)) throw std::out_of_range("lists nested too deep");
  const Json json = Json::parse(line);
  if (journal.model) {
    journal.points.push_back(record_of(json));
    return;
  }
  if (json.at("journal") != kName || json.at("format") != kFormat) throw std::out_of_range("another format");
  journal.model = model_of(json.at("model"));
}

bool is_journal(const std::filesystem::path& path) {
  const std::string name = path.filename();
  return name == "journal.jsonl" || (name.starts_with("journal-") && name.ends_with(".jsonl"));
}

/// Makes a rename or a new file durable by flushing its folder.
void flush_folder(const std::filesystem::path& folder) {
  const int handle = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (handle < 0) return;
  ::fsync(handle);
  ::close(handle);
}

}  // namespace

std::string_view to_string(PointStatus status) {
  return std::ranges::find(kStatuses, status, &std::pair<PointStatus, std::string_view>::first)->second;
}

std::string output_in_words(const PointRecord& record, const std::filesystem::path& folder) {
  return record.output.empty() ? "" : "; all that it printed is in " + (folder / record.output).string();
}

std::string to_line(const ModelIdentity& model) {
  return line_of(
      {{"journal", kName},
       {"format", kFormat},
       {"model",
        {{"path", model.path}, {"random_weights", model.random_weights}, {"config_hash", model.config_hash}}}});
}

std::string to_line(const PointRecord& record) {
  Json json = {
      {"key", record.key},
      {"status", to_string(record.status)},
      {"tp", record.shape.tp},
      {"batch_size", record.shape.batch},
      {"prompt_tokens", record.shape.prompt_tokens},
      {"new_tokens", record.shape.new_tokens},
      {"replicas", record.shape.replicas},
      {"variant",
       {{"version", record.variant.version},
        {"launch", record.variant.launch},
        {"options", Json(record.variant.options)}}},
      {"code", record.code},
      {"message", record.message},
      {"seconds", record.seconds},
      {"unix_time", record.unix_time},
      {"machine", {{"host", record.machine.host}, {"cpu", record.machine.cpu}, {"cores", record.machine.cores}}},
      {"command", record.command},
      {"output", record.output}};
  json["result"] = record.result.empty() ? Json() : Json::parse(record.result, nullptr, /*allow_exceptions=*/false);
  return line_of(json);
}

Result<JournalText> parse_journal(std::string_view text, const std::filesystem::path& path) {
  JournalText journal;
  size_t line = 1;
  for (size_t begin = 0, end = 0; (end = text.find('\n', begin)) != std::string_view::npos; begin = end + 1, ++line) {
    try {
      take_line(journal, text.substr(begin, end - begin));
    } catch (const std::exception& error) {
      if (end + 1 == text.size()) break;  // the last line: torn when the machine lost power
      return damaged(path, line, error.what());
    }
    journal.whole_bytes = end + 1;
  }
  return journal;
}

Result<JournalFolder> read_journals(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> paths;
  std::error_code failed;
  for (const auto& entry : std::filesystem::directory_iterator(folder, failed)) {
    if (is_journal(entry.path())) paths.push_back(entry.path());
  }
  std::ranges::sort(paths);
  JournalFolder all;
  std::map<std::string, size_t> places;
  for (const std::filesystem::path& path : paths) {
    LOCKSTEP_TRY(const std::string text, read_text_file(path, "--out"));
    LOCKSTEP_TRY(const JournalText journal, parse_journal(text, path));
    if (!journal.model) continue;
    if (all.model) LOCKSTEP_TRY_VOID(check_same_model(*journal.model, *all.model, folder));
    all.model = journal.model;
    for (const PointRecord& record : journal.points) {
      const auto [place, is_new] = places.emplace(record.key, all.points.size());
      if (is_new) {
        all.points.push_back(record);
      } else if (all.points[place->second].unix_time <= record.unix_time) {
        all.points[place->second] = record;
      }
    }
  }
  return all;
}

Result<void> check_same_model(const ModelIdentity& found, const ModelIdentity& expected,
                              const std::filesystem::path& folder) {
  if (found == expected) return ok();
  const auto words = [](const ModelIdentity& model) {
    return fmt::format("{}{} (config {})", model.random_weights ? "random weights of " : "", model.path,
                       model.config_hash);
  };
  return Error{
      ErrorKind::kInvalidArgument,
      fmt::format("[launcher/sweep] --out {} holds sweeps of another model: found {}, expected {}; use another "
                  "folder for each model",
                  folder.string(), words(found), words(expected))};
}

Result<std::unique_ptr<Journal>> Journal::open(const std::filesystem::path& path, const ModelIdentity& model) {
  const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (file < 0) return cannot_write(path, errno);
  std::unique_ptr<Journal> journal(new Journal(path, file));
  if (::flock(file, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    return Error{ErrorKind::kFailedPrecondition,
                 fmt::format("[launcher/sweep] cannot write {}: another sweep is at work there; wait for it, or use "
                             "another --out",
                             path.string())};
  }
  LOCKSTEP_TRY(const std::string text, read_text_file(path, "--out"));
  LOCKSTEP_TRY(const JournalText read, parse_journal(text, path));
  if (read.model) LOCKSTEP_TRY_VOID(check_same_model(*read.model, model, path.parent_path()));
  if (::ftruncate(file, static_cast<off_t>(read.whole_bytes)) != 0) return cannot_write(path, errno);
  if (!read.model) LOCKSTEP_TRY_VOID(journal->write(to_line(model)));
  flush_folder(path.parent_path());
  return journal;
}

Journal::~Journal() { ::close(file_); }

Result<void> Journal::write(const std::string& line) {
  for (size_t done = 0; done < line.size();) {
    const ssize_t written = ::write(file_, line.data() + done, line.size() - done);
    if (written < 0 && errno != EINTR) return cannot_write(path_, errno);
    if (written > 0) done += static_cast<size_t>(written);
  }
  if (::fsync(file_) != 0) return cannot_write(path_, errno);
  return ok();
}

}  // namespace lockstep::launcher
