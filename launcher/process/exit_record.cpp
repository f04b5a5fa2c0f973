#include "launcher/process/exit_record.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "runtime/core/atomic_file.h"

namespace lockstep::launcher {
namespace {

nlohmann::ordered_json number_or_null(std::optional<int> number) {
  return number ? nlohmann::ordered_json(*number) : nlohmann::ordered_json(nullptr);
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

Result<void> write_exit_record(const std::filesystem::path& directory, const ExitRecord& record) {
  return write_text_file(directory / fmt::format("rank-{}.json", record.rank), to_json(record));
}

}  // namespace lockstep::launcher
