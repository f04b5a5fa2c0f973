// Reads {"name": "f", "arguments": {…}} as it grows.
#pragma once

#include <string>

#include "launcher/serve/output/json_scanner.h"
#include "launcher/serve/output/pieces.h"

namespace lockstep::serve {

/// One call written as an object. The arguments pass on byte by byte as soon as the name is known; an object with the
/// name behind the arguments passes on when it ends.
///
/// Keys: "name" or "function"; "arguments" or "parameters", an object, an object in a string, or null; "type", "id",
/// "index". An object with another key is no call, and so is one without arguments, unless the place says that it is
/// one.
class CallObject {
 public:
  enum class Place { kTagged, kBare };

  CallObject(PieceCollector& out, Place place) : out_(out), place_(place) {}

  /// On `kInvalid` the byte is not part of the call. What was passed on before stays a call.
  JsonScanner::State put(char byte);
  /// Ends a call that has begun and that no further byte will complete.
  void abandon();
  bool has_begun() const { return begun_; }

 private:
  JsonScanner::State put_key(char byte, bool structural);
  JsonScanner::State put_value(char byte, bool structural, const std::string& text);
  bool take_value();
  bool take_function(const std::string& text);
  bool take_arguments(const std::string& text);
  JsonScanner::State complete();
  void begin();

  PieceCollector& out_;
  Place place_;
  JsonScanner scanner_;
  std::string token_;  // the key or value so far
  std::string key_;
  std::string name_, arguments_;
  bool in_value_ = false;
  bool streaming_ = false;  // the value is passed on
  bool begun_ = false, ended_ = false;
};

}  // namespace lockstep::serve
