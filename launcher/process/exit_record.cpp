#include "launcher/process/exit_record.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <nlohmann/json.hpp>

#include "runtime/core/atomic_file.h"

namespace lockstep::launcher {
namespace {

nlohmann::ordered_json number_or_null(std::optional<int> number) {
  return number ? nlohmann::ordered_json(*number) : nlohmann::ordered_json(nullptr);
}

/// A number from 0 to `most`; none for anything else.
std::optional<int> read_number(const nlohmann::json& json, const char* name, int most) {
  const auto found = json.find(name);
  if (found == json.end() || !found->is_number_unsigned() || found->get<uint64_t>() > static_cast<uint64_t>(most)) {
    return std::nullopt;
  }
  return found->get<int>();
}

/// The rank of a file rank-R.json; none for other names.
std::optional<int> rank_of(const std::filesystem::path& file) {
  constexpr std::string_view kBefore = "rank-", kAfter = ".json";
  const std::string name = file.filename().string();
  if (!name.starts_with(kBefore) || !name.ends_with(kAfter)) return std::nullopt;
  int rank = 0;
  const char* const end = name.data() + name.size() - kAfter.size();
  const auto parsed = std::from_chars(name.data() + kBefore.size(), end, rank);
  if (parsed.ec != std::errc() || parsed.ptr != end || rank < 0) return std::nullopt;
  return rank;
}

/// The files of ranks from `first_rank` on.
std::vector<std::filesystem::path> record_files(const std::filesystem::path& folder, int first_rank) {
  std::vector<std::filesystem::path> files;
  std::error_code failed;
  for (const auto& entry : std::filesystem::directory_iterator(folder, failed)) {
    if (const auto rank = rank_of(entry.path()); rank && *rank >= first_rank) files.push_back(entry.path());
  }
  return files;
}

}  // namespace

std::string to_json(const ExitRecord& record) {
  nlohmann::ordered_json json;
  json["code"] = record.code;
  json["rank"] = record.rank;
  json["host"] = record.host;
  json["lost_rank"] = number_or_null(record.lost_rank);
  json["origin_rank"] = number_or_null(record.origin_rank);
  json["phase"] = record.phase;
  json["operation"] = record.operation;
  json["sequence"] = record.sequence;
  json["message"] = record.message;
  json["unix_time"] = record.unix_time;
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

std::optional<ExitRecord> parse_exit_record(std::string_view text) {
  constexpr int kMostCode = 255, kMostRank = std::numeric_limits<int>::max();
  const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return std::nullopt;
  const auto code = read_number(json, "code", kMostCode), rank = read_number(json, "rank", kMostRank);
  if (!code || !rank) return std::nullopt;
  ExitRecord record{.code = *code, .rank = *rank, .lost_rank = read_number(json, "lost_rank", kMostRank)};
  if (const auto message = json.find("message"); message != json.end() && message->is_string()) {
    record.message = message->get<std::string>();
  }
  return record;
}

std::filesystem::path exit_record_file(const std::filesystem::path& folder, int rank) {
  return folder / fmt::format("rank-{}.json", rank);
}

Result<void> write_exit_record(const std::filesystem::path& folder, const ExitRecord& record) {
  return write_text_file(exit_record_file(folder, record.rank), to_json(record));
}

std::vector<ExitRecord> read_exit_records(const std::filesystem::path& folder) {
  std::vector<ExitRecord> records;
  for (const std::filesystem::path& file : record_files(folder, /*first_rank=*/0)) {
    const auto text = read_text_file(file, "--exit-record");
    if (!text.has_value()) continue;
    if (auto record = parse_exit_record(text.value())) records.push_back(*std::move(record));
  }
  std::ranges::sort(records, {}, &ExitRecord::rank);
  return records;
}

void remove_exit_records(const std::filesystem::path& folder, int first_rank) {
  std::error_code ignored;
  for (const std::filesystem::path& file : record_files(folder, first_rank)) std::filesystem::remove(file, ignored);
}

}  // namespace lockstep::launcher
