// The last stage of encoding: adds ids such as BOS and EOS around those of a text. For a single text every processor
// reduces to two lists of ids.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/core/result.h"
#include "runtime/text/json_field.h"

namespace lockstep::text {

struct PostProcessor {
  std::vector<int32_t> before;
  std::vector<int32_t> after;
  bool wraps = false;    // it may add ids to what it is given
  bool divides = false;  // the tokenizers package gives its tokens and the text to the next step as separate texts
};

/// Fails with `kUnsupported` on an unknown type, naming it.
Result<PostProcessor> parse_post_processor(const JsonField& field);

}  // namespace lockstep::text
