// The two shapes that a suite measures, so that the program needs no other file.
#pragma once

#include <string_view>

namespace lockstep::launcher::suite {

/// config.json of Llama-3.2-1B and of SmolLM2-135M, without their tokenizers; as in examples/shapes.
std::string_view llama_3_2_1b();
std::string_view smollm2_135m();

}  // namespace lockstep::launcher::suite
