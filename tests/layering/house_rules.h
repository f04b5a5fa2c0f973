// The project's table of folders as data: who may include whom, which third party belongs where, and which words only
// some folders may use. The same table in words: docs/design.md.
#pragma once

#include "tests/layering/include_scanner.h"

namespace lockstep::layering {

Rules house_rules();

}  // namespace lockstep::layering
