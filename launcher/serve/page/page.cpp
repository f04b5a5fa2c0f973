#include "launcher/serve/page/page.h"

namespace lockstep::serve {

extern const std::string_view kPage;  // page.html

std::string_view page() { return kPage; }

}  // namespace lockstep::serve
