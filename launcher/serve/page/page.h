// The page at /: a chat, and the engine at work. One text without outside resources.
#pragma once

#include "launcher/serve/http/exchange.h"

namespace lockstep::serve {

/// The page with headers that let a browser run this page's own script and style and nothing else
/// (Content Security Policy Level 3).
HttpResponse page_response();

}  // namespace lockstep::serve
