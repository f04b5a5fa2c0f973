// The constraint of the arguments of FunctionGemma's calls, which are no JSON:
//
//   {city:<escape>Rome<escape>,days:[1,2],to:{x:1}}      keys without quotes, texts between marks
#pragma once

#include <string>

#include "runtime/core/result.h"

namespace lockstep::serve {

/// A constraint (runtime/constraint) in JSON: "{…}" with the properties of `schema`, a JSON schema of an object, in its
/// order. Fails with `kUnsupported` for a schema that this notation, or this function, cannot express, naming the part.
Result<std::string> gemma_arguments_constraint(const std::string& schema);

}  // namespace lockstep::serve
