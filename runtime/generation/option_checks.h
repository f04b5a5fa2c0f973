// Checks of single options whose values are more than numbers.
#pragma once

#include "runtime/generation/options.h"

namespace lockstep::generation {

// Each fails with `kInvalidArgument` naming the option, the value and what is allowed.
Result<void> check_sequence_bias(const Option& option, const GenerationConfig& config);
Result<void> check_bad_words(const Option& option, const GenerationConfig& config);
Result<void> check_length_decay(const Option& option, const GenerationConfig& config);
Result<void> check_watermark(const Option& option, const GenerationConfig& config);
Result<void> check_eos_ids(const Option& option, const GenerationConfig& config);
Result<void> check_stop_strings(const Option& option, const GenerationConfig& config);

}  // namespace lockstep::generation
