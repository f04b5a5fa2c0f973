#include "launcher/serve/api/named_event.h"

#include <nlohmann/json.hpp>

namespace lockstep::serve {

std::string named_event(const Json& value) {
  return "event: " + value["type"].get<std::string>() + "\n" + event_of(value);
}

}  // namespace lockstep::serve
