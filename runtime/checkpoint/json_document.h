// Reading of untrusted JSON. A document is first parsed as a whole: one object, bounded depth, unique keys. Its keys
// are then read one by one, each with the required type and range. Private to this folder.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/core/result.h"

namespace lockstep::checkpoint {

/// The text of a file, or of one inside a GGUF file (gguf::derived_text); `kNotFound` when there is no regular file at
/// `path`, `kInvalidArgument` above `max_bytes`.
Result<std::string> read_text_file(const std::filesystem::path& path, int64_t max_bytes);

/// "[runtime/checkpoint] cannot read <place>: <found …, expected …>; …": the error of a malformed file.
Error damaged(std::string_view place, std::string_view found_and_expected);

/// Parses one JSON object. Fails with `kInvalidArgument` for anything else, for a duplicate key in one object and for
/// nesting deeper than 64; `origin` names the text in the message.
Result<nlohmann::json> parse_json_object(std::string_view text, std::string_view origin);

/// A JSON value in a message: a scalar's value (shortened), a container's kind.
std::string describe(const nlohmann::json& value);

/// The valid range of a key's number, both ends included.
template <typename T>
struct Limits {
  T least;
  T most;
};

/// Typed access to the keys of one JSON object, which must outlive it. A key that is null counts as absent. Every
/// failure is `kInvalidArgument` and names origin, key, found and expected. With `asked`, which must also outlive it,
/// it records the names of all keys that it was asked for, present or not; nested objects record nothing.
class KeyReader {
 public:
  using Names = std::set<std::string, std::less<>>;

  KeyReader(const nlohmann::json& object, std::string origin, Names* asked = nullptr)
      : object_(&object), origin_(std::move(origin)), asked_(asked) {}

  const std::string& origin() const { return origin_; }

  /// The value of a key; nullptr if absent or null.
  const nlohmann::json* find(std::string_view key) const;
  bool has(std::string_view key) const { return find(key) != nullptr; }

  /// Whether the key exists with the value null.
  bool is_null(std::string_view key) const;

  Result<int64_t> integer(std::string_view key, Limits<int64_t> limits) const;
  Result<int64_t> integer_or(std::string_view key, int64_t fallback, Limits<int64_t> limits) const;
  Result<double> number(std::string_view key, Limits<double> limits) const;
  Result<double> number_or(std::string_view key, double fallback, Limits<double> limits) const;
  /// Refuses null where the fallback is true, because it counts as false in Python.
  Result<bool> boolean_or(std::string_view key, bool fallback) const;
  Result<std::string> text(std::string_view key) const;
  Result<std::string> text_or(std::string_view key, std::string_view fallback) const;

  /// The keys of a nested object; empty if it is absent.
  Result<std::optional<KeyReader>> object(std::string_view key) const;

  /// "[runtime/checkpoint] <origin>: <key>: found …, expected …"
  Error wrong(std::string_view key, std::string_view expected) const;

 private:
  const nlohmann::json* object_;
  std::string origin_;
  Names* asked_;
};

}  // namespace lockstep::checkpoint
