#include "runtime/checkpoint/json_document.h"

#include <fmt/format.h>

#include <cmath>
#include <fstream>
#include <set>

#include "runtime/gguf/model_texts.h"

namespace lockstep::checkpoint {
namespace {

using nlohmann::json;

constexpr int kMaxDepth = 64;
constexpr size_t kLongestShown = 80;  // bytes of a value in a message

/// Rejects valid JSON that this folder does not accept.
class Watch {
 public:
  bool operator()(int depth, json::parse_event_t event, const json& parsed) {
    switch (event) {
      case json::parse_event_t::object_start: keys_.emplace_back(); break;
      case json::parse_event_t::object_end: keys_.pop_back(); break;
      case json::parse_event_t::key:
        if (!keys_.back().insert(parsed.get_ref<const std::string&>()).second && complaint_.empty()) {
          complaint_ = fmt::format("found the key {} twice, expected it once", describe(parsed));
        }
        break;
      default: break;
    }
    if (depth <= kMaxDepth) return true;
    if (complaint_.empty()) complaint_ = fmt::format("found values nested deeper than {}", kMaxDepth);
    return false;  // do not keep it: nested values would later overflow the stack
  }

  const std::string& complaint() const { return complaint_; }

 private:
  std::vector<std::set<std::string>> keys_;  // of the open objects
  std::string complaint_;
};

}  // namespace

Error damaged(std::string_view place, std::string_view found_and_expected) {
  return {ErrorKind::kInvalidArgument,
          fmt::format("[runtime/checkpoint] cannot read {}: {}; the file is damaged, fetch it again", place,
                      found_and_expected)};
}

Result<std::string> read_text_file(const std::filesystem::path& path, int64_t max_bytes) {
  if (gguf::is_inside(path)) {
    LOCKSTEP_TRY(auto text, gguf::derived_text(path));
    if (text) return *std::move(text);
  }
  std::error_code failure;
  if (!std::filesystem::is_regular_file(path, failure)) {
    return Error{ErrorKind::kNotFound, fmt::format("[runtime/checkpoint] cannot read {}: found no such file; check the "
                                                   "model directory",
                                                   path.string())};
  }
  const auto size = static_cast<int64_t>(std::filesystem::file_size(path, failure));
  if (failure || size > max_bytes) {
    return damaged(path.string(), fmt::format("found {} bytes, expected at most {}", size, max_bytes));
  }
  std::ifstream file(path, std::ios::binary);
  std::string text(static_cast<size_t>(size), '\0');
  if (!file.read(text.data(), size)) {
    return Error{ErrorKind::kFailedPrecondition,
                 fmt::format("[runtime/checkpoint] cannot read {}: found an unreadable file; check its permissions",
                             path.string())};
  }
  return text;
}

Result<json> parse_json_object(std::string_view text, std::string_view origin) {
  Watch watch;
  const auto callback = [&watch](int depth, json::parse_event_t event, json& parsed) {
    return watch(depth, event, parsed);
  };
  json document = json::parse(text.begin(), text.end(), callback, /*allow_exceptions=*/false);
  if (!watch.complaint().empty()) return damaged(origin, watch.complaint());
  if (document.is_discarded()) return damaged(origin, "found text that is not JSON, expected one object");
  if (!document.is_object()) {
    return damaged(origin, fmt::format("found {}, expected a JSON object", describe(document)));
  }
  return document;
}

std::string describe(const json& value) {
  if (value.is_object()) return "an object";
  if (value.is_array()) return fmt::format("an array of {}", value.size());
  std::string text = value.dump(-1, ' ', /*ensure_ascii=*/true, json::error_handler_t::replace);
  if (text.size() > kLongestShown) text = text.substr(0, kLongestShown) + "…";
  return text;
}

const json* KeyReader::find(std::string_view key) const {
  if (asked_ != nullptr) asked_->emplace(key);
  const auto it = object_->find(key);
  return it == object_->end() || it->is_null() ? nullptr : &*it;
}

bool KeyReader::is_null(std::string_view key) const {
  if (asked_ != nullptr) asked_->emplace(key);
  const auto it = object_->find(key);
  return it != object_->end() && it->is_null();
}

Error KeyReader::wrong(std::string_view key, std::string_view expected) const {
  const json* value = find(key);
  return {ErrorKind::kInvalidArgument,
          fmt::format("[runtime/checkpoint] cannot use {}: {}: found {}, expected {}; correct or replace the file",
                      origin_, key,
                      value != nullptr ? describe(*value)
                      : is_null(key)   ? "null"
                                       : "nothing",
                      expected)};
}

Result<int64_t> KeyReader::integer(std::string_view key, Limits<int64_t> limits) const {
  const json* value = find(key);
  const bool fits = value != nullptr && value->is_number_integer() &&
                    (!value->is_number_unsigned() ||
                     value->get<uint64_t>() <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max()));
  if (!fits || value->get<int64_t>() < limits.least || value->get<int64_t>() > limits.most) {
    return wrong(key, fmt::format("an integer from {} to {}", limits.least, limits.most));
  }
  return value->get<int64_t>();
}

Result<int64_t> KeyReader::integer_or(std::string_view key, int64_t fallback, Limits<int64_t> limits) const {
  if (!has(key)) return fallback;
  return integer(key, limits);
}

Result<double> KeyReader::number(std::string_view key, Limits<double> limits) const {
  const json* value = find(key);
  const double found = value != nullptr && value->is_number() ? value->get<double>() : std::nan("");
  if (!(found >= limits.least && found <= limits.most)) {
    return wrong(key, fmt::format("a number from {} to {}", limits.least, limits.most));
  }
  return found;
}

Result<double> KeyReader::number_or(std::string_view key, double fallback, Limits<double> limits) const {
  if (!has(key)) return fallback;
  return number(key, limits);
}

Result<bool> KeyReader::boolean_or(std::string_view key, bool fallback) const {
  if (is_null(key) && fallback) return wrong(key, "true or false");
  const json* value = find(key);
  if (value == nullptr) return fallback;
  if (!value->is_boolean()) return wrong(key, "true or false");
  return value->get<bool>();
}

Result<std::string> KeyReader::text(std::string_view key) const {
  const json* value = find(key);
  if (value == nullptr || !value->is_string()) return wrong(key, "a string");
  return value->get<std::string>();
}

Result<std::string> KeyReader::text_or(std::string_view key, std::string_view fallback) const {
  if (!has(key)) return std::string(fallback);
  return text(key);
}

Result<std::optional<KeyReader>> KeyReader::object(std::string_view key) const {
  const json* value = find(key);
  if (value == nullptr) return std::optional<KeyReader>();
  if (!value->is_object()) return wrong(key, "an object");
  return std::optional<KeyReader>(KeyReader(*value, fmt::format("{}: {}", origin_, key)));
}

}  // namespace lockstep::checkpoint
