// Reads the JSON body of a request. Every error names the field, what was found and what is expected:
//
//   messages[2].role: found a number, expected a text
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/serve/api/errors.h"

namespace lockstep::serve {

using Json = nlohmann::ordered_json;  // the order of names in a schema is part of its meaning

struct BodyLimits {
  size_t depth = 64;          // of lists and objects
  size_t names = 2048;        // of one object
  size_t values = 1'000'000;  // in total
};

/// A parsed body. Fails with status 400 for text that is not JSON or exceeds the limits.
ApiResult<std::shared_ptr<const Json>> parse_body(std::string_view text, const BodyLimits& limits = {});

/// A place in a body, with its path. Borrows the document.
class BodyField {
 public:
  explicit BodyField(const Json& value, std::string path = {}) : value_(&value), path_(std::move(path)) {}

  const Json& value() const { return *value_; }
  const std::string& path() const { return path_; }

  /// The field `name` of this object; empty when it is absent or null.
  std::optional<BodyField> find(std::string_view name) const;
  /// The same; an error when it is absent or null.
  ApiResult<BodyField> at(std::string_view name) const;

  ApiResult<std::string> text() const;
  ApiResult<double> number() const;  // finite
  ApiResult<int64_t> whole() const;  // 3 and 3.0
  ApiResult<bool> flag() const;
  ApiResult<std::vector<BodyField>> elements() const;
  ApiResult<BodyField> object() const;  // itself, when it is an object
  /// A text or a list of texts.
  ApiResult<std::vector<std::string>> texts() const;
  ApiResult<std::vector<int32_t>> ids(int64_t vocabulary) const;  // a list of whole numbers from 0 to below

  /// The value of an optional field, or `otherwise`.
  ApiResult<std::string> text_or(std::string_view name, std::string otherwise) const;
  ApiResult<bool> flag_or(std::string_view name, bool otherwise) const;
  ApiResult<std::optional<int64_t>> whole_within(std::string_view name, int64_t least, int64_t most) const;

  /// This field has the wrong form: names what was found.
  ApiError expected(std::string_view what) const;
  /// "PATH: MESSAGE", status 400.
  ApiError invalid(std::string_view message) const;
  /// The JSON text.
  std::string dump() const;

 private:
  const Json* value_;
  std::string path_;
};

/// "a text", "a number", "a list" …
std::string_view form_of(const Json& value);

/// JSON text on one line, valid in an event stream: U+2028 and U+2029 are escaped, and bytes that are no UTF-8 are
/// U+FFFD.
std::string to_line(const Json& value);

/// "data: LINE\n\n"
std::string event_of(const Json& value);

}  // namespace lockstep::serve
