#include "launcher/serve/api/call_ids.h"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "launcher/serve/api/body_field.h"
#include "runtime/core/hash.h"

namespace lockstep::serve {
namespace {

constexpr size_t kLength = 9;
constexpr std::string_view kAlphanumerics = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

std::string fitting_id(const std::string& id) {
  if (id.size() == kLength && id.find_first_not_of(kAlphanumerics) == std::string::npos) return id;
  uint64_t hash = Fingerprint().add(id).value();
  std::string made;
  for (size_t i = 0; i < kLength; ++i, hash /= kAlphanumerics.size()) {
    made += kAlphanumerics[hash % kAlphanumerics.size()];
  }
  return made;
}

void fit(Json& object, const char* name) {
  const auto id = object.find(name);
  if (id != object.end() && id->is_string()) *id = fitting_id(id->get_ref<const std::string&>());
}

}  // namespace

void fit_call_ids(std::vector<text::Message>& messages, const OutputFormat& format) {
  if (format.tools != "mistral" && format.tools != "mistral_args") return;
  for (text::Message& message : messages) {
    if (message.fields_json.empty()) continue;
    Json fields = Json::parse(message.fields_json);
    fit(fields, "tool_call_id");
    if (const auto calls = fields.find("tool_calls"); calls != fields.end()) {
      for (Json& call : *calls) fit(call, "id");
    }
    message.fields_json = to_line(fields);
  }
}

}  // namespace lockstep::serve
