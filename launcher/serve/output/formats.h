// Facts of a format that its reader and its constraint share.
#pragma once

#include <string>
#include <string_view>

namespace lockstep::serve {

/// The tag that ends what `opening` begins: "<think>" and "</think>", "[THINK]" and "[/THINK]".
std::string closing_tag(std::string_view opening);

inline constexpr std::string_view kHarmony = "harmony";

}  // namespace lockstep::serve
