// The project's table of folders as data: allowed includes, third parties, and words that only some folders may use.
// docs/design.md has the same table.
#pragma once

#include "tests/layering/include_scanner.h"

namespace lockstep::layering {

Rules house_rules();

}  // namespace lockstep::layering
