// Whether a body may be read as JSON.
#pragma once

#include "launcher/serve/api/errors.h"
#include "launcher/serve/http/exchange.h"

namespace lockstep::serve {

/// Pages of other origins can send bodies with the types of forms, and bodies without a type, and no browser asks this
/// server first. So other types than JSON are refused, and no type is as good as JSON only from clients that are no
/// browsers, which name the page's origin.
bool is_json(const HttpRequest& request);

/// The refusal of another type, status 415.
ApiError wrong_type(const HttpRequest& request);

}  // namespace lockstep::serve
