// Checks of single options with values other than plain numbers.
#pragma once

#include "runtime/generation/options.h"

namespace lockstep::generation {

// Each fails with `kInvalidArgument` naming the option, the value and the allowed values.
Result<void> check_sequence_bias(const Option& option, const GenerationConfig& config);
Result<void> check_bad_words(const Option& option, const GenerationConfig& config);
Result<void> check_length_decay(const Option& option, const GenerationConfig& config);
Result<void> check_watermark(const Option& option, const GenerationConfig& config);
Result<void> check_eos_ids(const Option& option, const GenerationConfig& config);
Result<void> check_stop_strings(const Option& option, const GenerationConfig& config);

}  // namespace lockstep::generation
