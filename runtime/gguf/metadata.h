// Metadata of a GGUF file as JSON values and lists. Private to this folder.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/gguf/gguf_header.h"

namespace lockstep::gguf {

/// A scalar, or an array of numbers or booleans; null if the key is absent. A float becomes its shortest decimal:
/// 1e-5, not 9.999999747e-06. Fails with `kInvalidArgument` for infinite numbers and NaN, and for text that is not
/// UTF-8.
Result<nlohmann::json> value_of(const GgufHeader& header, std::string_view key);

/// The double with the shortest decimal that is `number`.
double shortest(float number);

/// An integer; empty if the key is absent. Fails with `kInvalidArgument` for another type.
Result<std::optional<int64_t>> integer_of(const GgufHeader& header, std::string_view key);
Result<std::optional<bool>> boolean_of(const GgufHeader& header, std::string_view key);
Result<std::optional<std::string>> text_of(const GgufHeader& header, std::string_view key);

/// The elements of an array; empty if the key is absent. Views of the header's bytes.
Result<std::vector<std::string_view>> texts_of(const GgufHeader& header, std::string_view key);
Result<std::vector<double>> numbers_of(const GgufHeader& header, std::string_view key);

/// Whether `text` is UTF-8.
bool is_utf8(std::string_view text);

}  // namespace lockstep::gguf
