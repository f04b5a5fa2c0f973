#include "launcher/serve/output/json_scanner.h"

#include <nlohmann/json.hpp>

namespace lockstep::serve {
namespace {

constexpr size_t kDeepest = 256;

bool is_digit(char byte) { return byte >= '0' && byte <= '9'; }
bool is_hex(char byte) { return is_digit(byte) || (byte >= 'a' && byte <= 'f') || (byte >= 'A' && byte <= 'F'); }

/// What a number that ends with `last` ends with after `byte`; 0: `byte` is no part of it.
char next_in_number(char last, char byte) {
  if (is_digit(byte)) {
    switch (last) {
      case '-': return byte == '0' ? '0' : '1';
      case '1': return '1';
      case '.':
      case 'f': return 'f';
      case 'e':
      case '+':
      case 'x': return 'x';
      default: return 0;  // a digit after a leading zero
    }
  }
  const bool integer = last == '0' || last == '1';
  if (byte == '.') return integer ? '.' : 0;
  if (byte == 'e' || byte == 'E') return integer || last == 'f' ? 'e' : 0;
  if (byte == '+' || byte == '-') return last == 'e' ? '+' : 0;
  return 0;
}

bool number_is_complete(char last) { return last == '0' || last == '1' || last == 'f' || last == 'x'; }

}  // namespace

JsonScanner::State JsonScanner::expect(Expect next) {
  expect_ = next;
  return State::kMore;
}

JsonScanner::State JsonScanner::put(char byte) {
  switch (expect_) {
    case Expect::kString:
    case Expect::kEscape:
    case Expect::kHex: return put_string(byte);
    case Expect::kNumber: return put_number(byte);
    case Expect::kLiteral:
      if (byte != literal_left_.front()) return State::kInvalid;
      literal_left_.remove_prefix(1);
      return literal_left_.empty() ? expect(Expect::kCommaOrClose) : State::kMore;
    default: return put_structure(byte);
  }
}

JsonScanner::State JsonScanner::put_string(char byte) {
  if (expect_ == Expect::kEscape) {
    if (byte != 'u')
      return std::string_view("\"\\/bfnrt").find(byte) == std::string_view::npos ? State::kInvalid
                                                                                 : expect(Expect::kString);
    hex_left_ = 4;
    return expect(Expect::kHex);
  }
  if (expect_ == Expect::kHex) {
    if (!is_hex(byte)) return State::kInvalid;
    return --hex_left_ == 0 ? expect(Expect::kString) : State::kMore;
  }
  if (byte == '\\') return expect(Expect::kEscape);
  if (byte == '"') return expect(string_is_key_ ? Expect::kColon : Expect::kCommaOrClose);
  return State::kMore;
}

JsonScanner::State JsonScanner::put_number(char byte) {
  const char next = next_in_number(number_, byte);
  if (next != 0) {
    number_ = next;
    return State::kMore;
  }
  if (!number_is_complete(number_)) return State::kInvalid;
  expect_ = Expect::kCommaOrClose;
  return put_structure(byte);
}

JsonScanner::State JsonScanner::put_structure(char byte) {
  if (is_json_space(byte)) return State::kMore;
  switch (expect_) {
    case Expect::kStart: return byte == '{' || byte == '[' ? open(byte) : State::kInvalid;
    case Expect::kColon: return byte == ':' ? expect(Expect::kValue) : State::kInvalid;
    case Expect::kCommaOrClose:
      if (byte == ',') return expect(open_.back() == '{' ? Expect::kKey : Expect::kValue);
      return close(byte);
    case Expect::kKey:
    case Expect::kKeyOrClose:
      if (byte == '}' && expect_ == Expect::kKeyOrClose) return close(byte);
      if (byte != '"') return State::kInvalid;
      string_is_key_ = true;
      return expect(Expect::kString);
    case Expect::kValueOrClose: return byte == ']' ? close(byte) : begin_value(byte);
    default: return begin_value(byte);
  }
}

JsonScanner::State JsonScanner::begin_value(char byte) {
  switch (byte) {
    case '{':
    case '[': return open(byte);
    case '"': string_is_key_ = false; return expect(Expect::kString);
    case 't': literal_left_ = "rue"; return expect(Expect::kLiteral);
    case 'f': literal_left_ = "alse"; return expect(Expect::kLiteral);
    case 'n': literal_left_ = "ull"; return expect(Expect::kLiteral);
    default:
      if (byte != '-' && !is_digit(byte)) return State::kInvalid;
      number_ = byte == '-' || byte == '0' ? byte : '1';
      return expect(Expect::kNumber);
  }
}

JsonScanner::State JsonScanner::open(char bracket) {
  if (open_.size() == kDeepest) return State::kInvalid;
  open_ += bracket;
  return expect(bracket == '{' ? Expect::kKeyOrClose : Expect::kValueOrClose);
}

JsonScanner::State JsonScanner::close(char bracket) {
  if (bracket != (open_.back() == '{' ? '}' : ']')) return State::kInvalid;
  open_.pop_back();
  expect_ = Expect::kCommaOrClose;
  return open_.empty() ? State::kComplete : State::kMore;
}

std::string json_escaped(char byte, bool in_string) {
  if (!in_string || static_cast<unsigned char>(byte) >= 0x20) return std::string(1, byte);
  switch (byte) {
    case '\n': return "\\n";
    case '\r': return "\\r";
    case '\t': return "\\t";
    default: break;
  }
  constexpr std::string_view kDigits = "0123456789abcdef";
  return std::string("\\u00") + kDigits[byte >> 4] + kDigits[byte & 15];
}

std::string json_string(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string json_string_byte(char byte) {
  if (byte == '"' || byte == '\\') return {'\\', byte};
  return json_escaped(byte, /*in_string=*/true);
}

}  // namespace lockstep::serve
