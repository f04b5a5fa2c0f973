// Keys of config.json without effect on results, and the check for unknown keys. Private to this folder.
#pragma once

#include <span>
#include <string_view>

#include "runtime/checkpoint/json_document.h"

namespace lockstep::checkpoint {

/// Fails with `kUnsupported`, naming the first key of `document` that is not null, not in `read`, not in `idle` and not
/// one of the keys that are without effect in every family.
Result<void> require_known_keys(const nlohmann::json& document, const KeyReader& config, const KeyReader::Names& read,
                                std::span<const std::string_view> idle);

}  // namespace lockstep::checkpoint
