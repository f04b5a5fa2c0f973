// Typed access to an untrusted JSON document. Every value has its path ("model.merges[3]"), so errors name the wrong
// key.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/core/result.h"

namespace lockstep::text {

/// A value inside a document, with its path. Borrows the document.
class JsonField {
 public:
  /// The whole document; `origin` names it in messages.
  JsonField(const nlohmann::json& document, std::string origin) : value_(&document), origin_(std::move(origin)) {}

  const nlohmann::json& value() const { return *value_; }

  /// The member `key`; empty when it is missing or null.
  std::optional<JsonField> find(std::string_view key) const;
  /// The member `key`; fails with `kInvalidArgument` when it is missing or null.
  Result<JsonField> at(std::string_view key) const;
  /// The elements of an array.
  Result<std::vector<JsonField>> elements() const;

  Result<std::string> string() const;
  Result<bool> boolean() const;
  Result<double> number() const;
  /// An integer in `[low, high]`.
  Result<int64_t> integer(int64_t low, int64_t high) const;

  /// The member `key`, or `fallback` when it is missing or null.
  Result<bool> boolean_or(std::string_view key, bool fallback) const;
  Result<std::string> string_or(std::string_view key, std::string fallback) const;

  /// "[runtime/text] cannot read ORIGIN: PATH: found …, expected …; …"
  Error invalid(std::string_view found, std::string_view expected) const;
  /// The same as `kUnsupported`, with the known values.
  Error unsupported(std::string_view found, std::string_view known) const;

 private:
  JsonField child(const nlohmann::json& value, std::string path) const;
  Error of_kind(ErrorKind kind, std::string_view found, std::string_view expected, std::string_view advice) const;
  Error wrong_type(std::string_view expected) const;

  const nlohmann::json* value_;
  std::string origin_;
  std::string path_;
};

}  // namespace lockstep::text
