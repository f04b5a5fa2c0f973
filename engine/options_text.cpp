#include "engine/options_text.h"

#include <fmt/format.h>

#include "engine/requests/field_json.h"

namespace lockstep {

std::string to_text(const EngineOptions& options) {
  return field_json::write(options).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

Result<EngineOptions> parse_engine_options(const std::string& text) {
  try {
    EngineOptions options;
    field_json::read(nlohmann::json::parse(text), options);
    return options;
  } catch (const nlohmann::json::exception& failure) {
    return Error{ErrorKind::kInternal, fmt::format("[engine] cannot read the options of rank 0: {}", failure.what())};
  }
}

}  // namespace lockstep
