// The last stage of encoding: what is put around the ids of a text, such as BOS and EOS. Every processor of one text
// comes down to two lists of ids.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/core/result.h"
#include "runtime/text/json_field.h"

namespace lockstep::text {

struct PostProcessor {
  std::vector<int32_t> before;
  std::vector<int32_t> after;
};

/// Fails with `kUnsupported` on a type that is not known, naming it.
Result<PostProcessor> parse_post_processor(const JsonField& field);

}  // namespace lockstep::text
