#include "launcher/serve/http/head_rules.h"

#include <algorithm>

namespace lockstep::serve {
namespace {

HttpRefusal bad_request(std::string message) { return {400, "bad_request", std::move(message)}; }

bool is_token_character(char c) {
  const bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  return is_letter || (c >= '0' && c <= '9') || std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
}

bool is_token(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), is_token_character);
}

bool is_number(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool same_ignoring_case(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) { return lower(x) == lower(y); });
}

std::string_view trimmed(std::string_view text) {
  const auto begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

/// Takes the text up to CRLF from the front of `rest`.
std::string_view next_line(std::string_view& rest) {
  const auto end = rest.find("\r\n");
  const std::string_view line = rest.substr(0, end);
  rest.remove_prefix(std::min(rest.size(), line.size() + 2));
  return line;
}

/// "METHOD TARGET HTTP/1.x".
std::optional<HttpRefusal> check_request_line(std::string_view line) {
  const auto first = line.find(' ');
  const auto last = line.rfind(' ');
  if (first == std::string_view::npos || first == last || !is_token(line.substr(0, first))) {
    return bad_request("the first line is not METHOD TARGET HTTP/1.1");
  }
  const std::string_view target = line.substr(first + 1, last - first - 1);
  if (target.empty() || target.find(' ') != std::string_view::npos) {
    return bad_request("the target of the first line is empty or has spaces; write them as %20");
  }
  const std::string_view version = line.substr(last + 1);
  if (version == "HTTP/1.1" || version == "HTTP/1.0") return std::nullopt;
  if (version.starts_with("HTTP/")) return HttpRefusal{505, "http_version", "expected HTTP/1.1 or HTTP/1.0"};
  return bad_request("the first line is not METHOD TARGET HTTP/1.1");
}

/// The headers that decide where a request ends and which host it means.
struct FramingHeaders {
  int hosts = 0;
  int lengths = 0;
  int codings = 0;

  std::optional<HttpRefusal> take(std::string_view name, std::string_view value) {
    if (same_ignoring_case(name, "host")) ++hosts;
    if (same_ignoring_case(name, "content-length")) {
      ++lengths;
      if (!is_number(value)) return bad_request("Content-Length is not a number");
    }
    if (same_ignoring_case(name, "transfer-encoding")) {
      ++codings;
      if (!same_ignoring_case(value, "chunked")) {
        return HttpRefusal{501, "transfer_coding", "the only transfer coding is chunked"};
      }
    }
    if (same_ignoring_case(name, "expect") && !same_ignoring_case(value, "100-continue")) {
      return HttpRefusal{417, "expectation_failed", "the only expectation is 100-continue"};
    }
    return std::nullopt;
  }

  std::optional<HttpRefusal> check(bool is_http_1_0) const {
    if (lengths > 1) return bad_request("more than one Content-Length");
    if (codings > 1) return bad_request("more than one Transfer-Encoding");
    if (lengths > 0 && codings > 0) return bad_request("both Content-Length and Transfer-Encoding");
    if (codings > 0 && is_http_1_0) return bad_request("Transfer-Encoding in HTTP/1.0");
    if (hosts > 1) return bad_request("more than one Host header");
    if (hosts == 0 && !is_http_1_0) return bad_request("no Host header");
    return std::nullopt;
  }
};

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  const char letter = lower(c);
  return letter >= 'a' && letter <= 'f' ? letter - 'a' + 10 : -1;
}

}  // namespace

std::optional<HttpRefusal> HeadScanner::scan(std::string_view bytes) {
  for (; size_ == 0 && seen_ < bytes.size(); ++seen_) {
    const char c = bytes[seen_];
    const bool after_return = seen_ > 0 && bytes[seen_ - 1] == '\r';
    if ((c == '\n') != after_return) return bad_request("a line does not end with CR LF");
    if (c == '\n') {
      if (seen_ == line_ + 1) size_ = seen_ + 1;
      line_ = seen_ + 1;
    } else if (c != '\r' && c != '\t' && (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)) {
      return bad_request("a control character in the head");
    } else if (c == ' ' || c == '\t') {
      if (seen_ == line_) return bad_request("a line of the head begins with white space");
    }
    if (line_ == 0 && seen_ >= limits_.uri_bytes) {
      return HttpRefusal{414, "uri_too_long",
                         "the first line is longer than " + std::to_string(limits_.uri_bytes) + " bytes"};
    }
    if (size_ == 0 && seen_ + 1 >= limits_.head_bytes) {
      return HttpRefusal{431, "header_too_large",
                         "the head is larger than " + std::to_string(limits_.head_bytes) + " bytes"};
    }
  }
  return std::nullopt;
}

std::optional<HttpRefusal> check_head(std::string_view head) {
  const std::string_view request_line = next_line(head);
  if (auto refusal = check_request_line(request_line)) return refusal;
  FramingHeaders framing;
  for (std::string_view line = next_line(head); !line.empty(); line = next_line(head)) {
    const auto colon = line.find(':');
    if (colon == std::string_view::npos || !is_token(line.substr(0, colon))) {
      return bad_request("a header is not NAME: VALUE");
    }
    if (auto refusal = framing.take(line.substr(0, colon), trimmed(line.substr(colon + 1)))) return refusal;
  }
  return framing.check(request_line.ends_with("HTTP/1.0"));
}

std::optional<std::string> percent_decoded(std::string_view text) {
  std::string decoded;
  decoded.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      decoded += text[i];
      continue;
    }
    if (i + 2 >= text.size()) return std::nullopt;
    const int high = hex_value(text[i + 1]);
    const int low = hex_value(text[i + 2]);
    if (high < 0 || low < 0 || (high == 0 && low == 0)) return std::nullopt;
    decoded += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return decoded;
}

}  // namespace lockstep::serve
