#include "engine/requests/history.h"

#include <fmt/format.h>

#include "engine/requests/field_json.h"
#include "runtime/core/hash.h"
#include "runtime/core/json_depth.h"

namespace lockstep::requests {
namespace {

constexpr int64_t kVersion = 3;

/// The content of the text that one engine writes for another.
struct Suspended {
  int64_t version = kVersion;
  std::string model;  // fingerprint of its spec
  std::vector<SuspendedRequest> requests;
};
LOCKSTEP_FIELDS(Suspended, version, model, requests);

std::string fingerprint_of(const Model& model) {
  return fmt::format("{:016x}", Fingerprint().add(fields_to_text(model.spec())).value());
}

Error invalid(const std::string& found) {
  return {ErrorKind::kInvalidArgument,
          fmt::format("[engine/requests] cannot restore requests: found {}, expected what Engine::suspended returned",
                      found)};
}

}  // namespace

std::string to_text(const std::vector<SuspendedRequest>& requests, const Model& model) {
  return field_json::write(Suspended{.model = fingerprint_of(model), .requests = requests})
      .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

Result<std::vector<SuspendedRequest>> parse_suspended(std::string_view text, const Model& model) {
  if (nests_too_deep(text)) return invalid("lists nested too deep");
  Suspended suspended;
  try {
    field_json::read(nlohmann::json::parse(text), suspended);
  } catch (const nlohmann::json::exception& failure) {
    return invalid(failure.what());
  }
  if (suspended.version != kVersion) return invalid(fmt::format("version {}", suspended.version));
  if (suspended.model == fingerprint_of(model)) return std::move(suspended.requests);
  return Error{ErrorKind::kFailedPrecondition,
               fmt::format("[engine/requests] cannot restore requests: found those of a model with the fingerprint {}, "
                           "expected {}; open the model, and its options, that they were suspended with",
                           suspended.model, fingerprint_of(model))};
}

std::optional<std::vector<AnswerSoFar>> delivered_of(const Request& request) {
  if (request.delivered.empty()) return std::nullopt;
  std::vector<AnswerSoFar> answers;
  for (const std::vector<int32_t>& ids : request.delivered) answers.push_back({ids, std::nullopt});
  return answers;
}

}  // namespace lockstep::requests
