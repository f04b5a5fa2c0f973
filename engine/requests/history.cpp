#include "engine/requests/history.h"

#include <fmt/format.h>

#include "engine/requests/field_json.h"
#include "runtime/core/json_depth.h"

namespace lockstep::requests {
namespace {

constexpr int64_t kVersion = 4;

/// The content of the text that one engine writes for another.
struct Suspended {
  int64_t version = kVersion;
  std::string engine;  // EngineFacts::identity
  std::vector<SuspendedRequest> requests;
};
LOCKSTEP_FIELDS(Suspended, version, engine, requests);

Error invalid(const std::string& found) {
  return {ErrorKind::kInvalidArgument,
          fmt::format("[engine/requests] cannot restore requests: found {}, expected what Engine::suspended returned",
                      found)};
}

}  // namespace

std::string to_text(const std::vector<SuspendedRequest>& requests, const std::string& engine) {
  return field_json::write(Suspended{.engine = engine, .requests = requests})
      .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

Result<std::vector<SuspendedRequest>> parse_suspended(std::string_view text, const std::string& engine) {
  if (nests_too_deep(text)) return invalid("lists nested too deep");
  Suspended suspended;
  try {
    field_json::read(nlohmann::json::parse(text), suspended);
  } catch (const nlohmann::json::exception& failure) {
    return invalid(failure.what());
  }
  if (suspended.version != kVersion) return invalid(fmt::format("version {}", suspended.version));
  if (suspended.engine == engine) return std::move(suspended.requests);
  return Error{ErrorKind::kFailedPrecondition,
               fmt::format("[engine/requests] cannot restore requests: found those of an engine with the identity {}, "
                           "expected {}; open the same weights with the same options and backend",
                           suspended.engine, engine)};
}

std::optional<std::vector<AnswerSoFar>> delivered_of(const Request& request) {
  if (request.delivered.empty()) return std::nullopt;
  std::vector<AnswerSoFar> answers;
  for (const std::vector<int32_t>& ids : request.delivered) answers.push_back({ids, std::nullopt});
  return answers;
}

}  // namespace lockstep::requests
