#include "launcher/serve/page/page.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <array>
#include <string>
#include <string_view>

#include "runtime/core/check.h"

namespace lockstep::serve {

extern const std::string_view kPage;  // page.html with its parts

namespace {

/// What is between the only `<tag>` and `</tag>` of the page.
std::string_view element(std::string_view tag) {
  const std::string begin = fmt::format("<{}>", tag), end = fmt::format("</{}>", tag);
  const size_t from = kPage.find(begin), to = kPage.rfind(end);
  LOCKSTEP_CHECK(from != std::string_view::npos && to != std::string_view::npos && from < to, tag);
  return kPage.substr(from + begin.size(), to - from - begin.size());
}

/// A source expression that allows exactly this text.
std::string hash_source(std::string_view text) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest;
  unsigned int size = 0;
  LOCKSTEP_CHECK(EVP_Digest(text.data(), text.size(), digest.data(), &size, EVP_sha256(), nullptr) == 1);
  std::array<unsigned char, EVP_MAX_MD_SIZE * 2> base64;
  const int length = EVP_EncodeBlock(base64.data(), digest.data(), static_cast<int>(size));
  return fmt::format("'sha256-{}'", std::string(base64.begin(), base64.begin() + length));
}

}  // namespace

HttpResponse page_response() {
  const std::string policy = fmt::format(
      "default-src 'none'; script-src {}; style-src {}; connect-src 'self'; img-src data:; base-uri 'none'; "
      "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
      hash_source(element("script")), hash_source(element("style")));
  return {.content_type = "text/html; charset=utf-8",
          .body = std::string(kPage),
          .headers = {{"Content-Security-Policy", policy},
                      {"Cache-Control", "no-cache"},
                      {"Referrer-Policy", "no-referrer"},
                      {"X-Content-Type-Options", "nosniff"}}};
}

}  // namespace lockstep::serve
