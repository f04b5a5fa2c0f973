#include "launcher/process/exit_record.h"

#include <fmt/format.h>

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

Result<void> write_exit_record(const std::filesystem::path& directory, const ExitRecord& record) {
  return write_text_file(directory / fmt::format("rank-{}.json", record.rank), to_json(record));
}

}  // namespace lockstep::launcher
