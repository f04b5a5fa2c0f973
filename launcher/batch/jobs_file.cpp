#include "launcher/batch/jobs_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "lockstep/request.h"
#include "runtime/core/hash.h"
#include "runtime/core/json_depth.h"

namespace lockstep::launcher {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kPromptFields[] = {"prompt", "ids", "messages"};

Error bad_line(const std::string& place, std::string_view found, std::string_view expected) {
  return {ErrorKind::kInvalidArgument,
          fmt::format("[launcher] {}: found {}, expected {}; correct the line", place, found, expected)};
}

Result<void> read_ids(const Json& value, const std::string& place, JobRow& row) {
  const auto is_id = [](const Json& id) {
    return id.is_number_integer() && id.get<int64_t>() >= 0 && id.get<int64_t>() <= INT32_MAX;
  };
  if (!value.is_array() || value.empty() || !std::ranges::all_of(value, is_id)) {
    return bad_line(place, "\"ids\" that are none", "an array of token ids of 0 and above, at least one");
  }
  row.ids = value.get<std::vector<int32_t>>();
  return ok();
}

Result<void> read_messages(const Json& value, const std::string& place, JobRow& row) {
  const auto is_message = [](const Json& message) {
    return message.is_object() && message.size() == 2 && message.contains("role") && message["role"].is_string() &&
           message.contains("content") && message["content"].is_string();
  };
  if (!value.is_array() || value.empty() || !std::ranges::all_of(value, is_message)) {
    return bad_line(place, "\"messages\" that are none",
                    "an array of {\"role\": text, \"content\": text}, at least one");
  }
  for (const Json& message : value) row.messages.push_back({message["role"], message["content"]});
  return ok();
}

Result<void> read_stops(const Json& value, const std::string& place, JobRow& row) {
  const auto is_stop = [](const Json& stop) { return stop.is_string() && !stop.get_ref<const std::string&>().empty(); };
  if (is_stop(value)) {
    row.stop_strings = std::vector<std::string>{value.get<std::string>()};
  } else if (value.is_array() && std::ranges::all_of(value, is_stop)) {
    row.stop_strings = value.get<std::vector<std::string>>();
  } else {
    return bad_line(place, "a \"stop\" that is none", "text, or an array of texts");
  }
  return ok();
}

Result<void> read_length(const Json& value, const std::string& place, JobRow& row) {
  const int32_t most = find_generation_option("max_new_tokens")->most_asked;
  if (!value.is_number_integer() || value.get<int64_t>() < 1 || value.get<int64_t>() > most) {
    return bad_line(place, fmt::format("max_new_tokens {}", value.dump()), fmt::format("1 to {}", most));
  }
  row.max_new_tokens = value.get<int32_t>();
  return ok();
}

/// The option fields that a row may set. The graphs apply these per slot.
std::vector<std::string_view> option_fields() {
  std::vector<std::string_view> fields;
  for (const GenerationOption& option : generation_options()) {
    if (!option.batch_field.empty()) fields.push_back(option.batch_field);
  }
  return fields;
}

Result<void> read_field(const std::string& name, const Json& value, const std::string& place, JobRow& row) {
  if (name == "ids") return read_ids(value, place, row);
  if (name == "messages") return read_messages(value, place, row);
  if (name == "stop") return read_stops(value, place, row);
  if (name == "prompt") {
    if (!value.is_string() || value.get_ref<const std::string&>().empty()) {
      return bad_line(place, "a \"prompt\" that is none", "text");
    }
    row.prompt = value;
    return ok();
  }
  if (name == "max_new_tokens") return read_length(value, place, row);
  const std::vector<std::string_view> fields = option_fields();
  if (std::ranges::find(fields, name) == fields.end()) {
    return bad_line(place, fmt::format("the field \"{}\"", name),
                    fmt::format("id, prompt, ids, messages, {}", fmt::join(fields, ", ")));
  }
  row.generation[name] = value.dump();
  return ok();
}

Result<std::string> read_id(const Json& id, const std::string& place) {
  if (id.is_string() || id.is_number_integer()) return id.dump();
  return bad_line(place, fmt::format("the id {}", id.dump()), "text or a whole number");
}

}  // namespace

Result<ParsedLine> parse_job_line(std::string_view line, const std::string& place) {
  if (nests_too_deep(line)) return bad_line(place, "lists nested too deep", "a row");
  const Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) {
    return bad_line(place, json.is_discarded() ? "text that is not JSON" : json.type_name(), "a JSON object");
  }
  ParsedLine parsed;
  for (const auto& [name, value] : json.items()) {
    if (name == "id") {
      LOCKSTEP_TRY(parsed.id, read_id(value, place));
    } else {
      LOCKSTEP_TRY_VOID(read_field(name, value, place, parsed.row));
    }
  }
  const auto prompts = std::ranges::count_if(kPromptFields, [&](auto name) { return json.contains(name); });
  if (prompts == 1) return parsed;
  return bad_line(place, fmt::format("{} of prompt, ids and messages", prompts), "one of them");
}

Result<JobsFile> JobsFile::open(const std::filesystem::path& path, ChatRows chat) {
  JobsFile jobs;
  jobs.path_ = path;
  jobs.file_.open(path, std::ios::binary);
  std::error_code failed;
  if (!jobs.file_ || std::filesystem::is_directory(path, failed)) {
    return Error{ErrorKind::kNotFound,
                 fmt::format("[launcher] --prompts-file: cannot read {}; name a file that exists", path.string())};
  }
  std::string line;
  int64_t offset = 0;
  for (size_t number = 1; std::getline(jobs.file_, line); ++number) {
    const auto bytes = static_cast<int64_t>(line.size()) + 1;
    if (line.find_first_not_of(" \t\r") != std::string::npos) {
      LOCKSTEP_TRY_VOID(jobs.add(line, offset, number, chat));
    }
    offset += bytes;
  }
  jobs.file_.clear();
  LOCKSTEP_TRY_VOID(jobs.check_ids());
  if (!jobs.lines_.empty()) return jobs;
  return Error{
      ErrorKind::kInvalidArgument,
      fmt::format("[launcher] --prompts-file: found no rows in {}, expected a JSON object a line", path.string())};
}

std::string JobsFile::place(size_t number) const { return fmt::format("{} line {}", path_.string(), number); }

Result<void> JobsFile::add(std::string_view line, int64_t offset, size_t number, ChatRows chat) {
  LOCKSTEP_TRY(ParsedLine parsed, parse_job_line(line, place(number)));
  if (chat == ChatRows::kNo && !parsed.row.messages.empty()) {
    return bad_line(place(number), "messages without --chat", "--chat, which turns them into a prompt");
  }
  if (chat == ChatRows::kYes && !parsed.row.ids.empty()) {
    return bad_line(place(number), "ids with --chat", "a prompt or messages, which the chat template wraps");
  }
  has_text_ = has_text_ || parsed.row.ids.empty() || parsed.row.stop_strings.has_value();
  if (parsed.id.empty()) parsed.id = fmt::format("{}", number);
  fingerprint_ = Fingerprint().add(fingerprint_).add(parsed.id).add(line).value();
  lines_.push_back({offset, std::ssize(line), Fingerprint().add(line).value(), std::move(parsed.id)});
  numbers_.push_back(number);
  return ok();
}

Result<void> JobsFile::check_ids() const {
  std::unordered_map<std::string_view, size_t> seen;
  for (size_t row = 0; row < lines_.size(); ++row) {
    const auto [before, is_new] = seen.emplace(lines_[row].id, row);
    if (is_new) continue;
    return bad_line(place(numbers_[row]), fmt::format("the id {} of line {}", lines_[row].id, numbers_[before->second]),
                    "an id of its own (without one, a row has the number of its line)");
  }
  return ok();
}

Result<JobRow> JobsFile::read(size_t row) {
  const Line& line = lines_.at(row);
  std::string text(static_cast<size_t>(line.bytes), ' ');
  file_.clear();
  file_.seekg(line.offset);
  file_.read(text.data(), line.bytes);
  if (!file_ || Fingerprint().add(text).value() != line.hash) {
    return Error{ErrorKind::kFailedPrecondition,
                 fmt::format("[launcher] {} changed while it was read: found another line, expected the one that was "
                             "checked; leave the file alone, then start again",
                             place(numbers_[row]))};
  }
  LOCKSTEP_TRY(ParsedLine parsed, parse_job_line(text, place(numbers_[row])));
  return std::move(parsed.row);
}

}  // namespace lockstep::launcher
