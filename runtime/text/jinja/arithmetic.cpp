#include "runtime/text/jinja/arithmetic.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>

#include "runtime/text/jinja/library.h"

namespace lockstep::jinja {
namespace {

[[noreturn]] void too_large() { throw RenderFailure("an integer is too large"); }

int64_t floor_divide(int64_t a, int64_t b) {
  if (b == 0) throw RenderFailure("division by zero");
  if (a == INT64_MIN && b == -1) too_large();
  return a / b - ((a % b != 0) && ((a < 0) != (b < 0)) ? 1 : 0);
}

int64_t power(int64_t base, int64_t exponent) {
  int64_t result = 1;
  if (base == 0 || base == 1) return exponent == 0 ? 1 : base;
  if (base == -1) return exponent % 2 == 0 ? 1 : -1;
  for (; exponent > 0; --exponent) {
    if (__builtin_mul_overflow(result, base, &result)) too_large();
  }
  return result;
}

Value integers(std::string_view op, int64_t a, int64_t b) {
  int64_t result = 0;
  if (op == "+" && !__builtin_add_overflow(a, b, &result)) return result;
  if (op == "-" && !__builtin_sub_overflow(a, b, &result)) return result;
  if (op == "*" && !__builtin_mul_overflow(a, b, &result)) return result;
  if (op == "//") return floor_divide(a, b);
  if (op == "%") return b == -1 ? int64_t{0} : a - floor_divide(a, b) * b;
  if (op == "**" && b >= 0) return power(a, b);
  too_large();
}

double power_of_reals(double a, double b) {
  if (a == 0 && b < 0) throw RenderFailure("division by zero");
  const double result = std::pow(a, b);
  if (std::isfinite(a) && std::isfinite(b) && !std::isfinite(result)) throw RenderFailure("a power is no real number");
  return result;
}

/// Python's numbers, with single underscores between digits removed; empty where an underscore is elsewhere.
std::optional<std::string> without_underscores(std::string_view text) {
  const auto is_alphanumeric = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; };
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') {
      out += text[i];
    } else if (i == 0 || i + 1 == text.size() || !is_alphanumeric(text[i - 1]) || !is_alphanumeric(text[i + 1])) {
      return std::nullopt;
    }
  }
  return out;
}

/// The base that the prefix of `digits` names; 0 without one.
int64_t prefixed_base(std::string_view digits) {
  if (digits.size() < 2 || digits[0] != '0') return 0;
  const char letter = static_cast<char>(digits[1] | 0x20);
  return letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 0;
}

/// The floor of a fraction, or the next integer: the nearer one, and the even one of two as near.
int64_t round_to_multiple(int64_t value, int64_t unit) {
  const int64_t quotient = floor_divide(value, unit);
  const int64_t rest = value - quotient * unit;  // 0 to unit - 1
  const bool is_up = rest > unit - rest || (rest == unit - rest && quotient % 2 != 0);
  int64_t result = 0;
  if (__builtin_mul_overflow(quotient + (is_up ? 1 : 0), unit, &result)) too_large();
  return result;
}

Value reals(std::string_view op, double a, double b) {
  if (op == "+") return a + b;
  if (op == "-") return a - b;
  if (op == "*") return a * b;
  if (op == "**") return power_of_reals(a, b);
  if (b == 0) throw RenderFailure("division by zero");
  if (op == "/") return a / b;
  double rest = std::fmod(a, b);
  double quotient = (a - rest) / b;
  if (rest == 0) {
    rest = std::copysign(0.0, b);
  } else if ((rest < 0) != (b < 0)) {
    rest += b;
    quotient -= 1;
  }
  if (op == "%") return rest;
  if (quotient == 0) return std::copysign(0.0, a / b);
  const double floor = std::floor(quotient);
  return quotient - floor > 0.5 ? floor + 1 : floor;
}

Value repeat(const Value& value, int64_t times, Budget& budget) {
  times = std::max<int64_t>(times, 0);
  if (const std::string* text = value.string()) {
    if (text->empty()) return "";
    if (times > (int64_t{1} << 28)) throw RenderFailure("makes too much text");
    budget.bytes(text->size() * static_cast<size_t>(times));
    std::string out;
    for (; times > 0; --times) out += *text;
    return out;
  }
  const auto& items = value.list()->items;
  if (items.empty()) return List{};
  if (times > (int64_t{1} << 28)) throw RenderFailure("takes too many steps");
  budget.step(items.size() * static_cast<size_t>(times));
  List out;
  for (; times > 0; --times) out.items.insert(out.items.end(), items.begin(), items.end());
  return out;
}

bool repeats(const Value& value) { return value.string() != nullptr || value.list() != nullptr; }

}  // namespace

Value arithmetic(std::string_view op, const Value& left, const Value& right, Budget& budget) {
  if (op == "~") {
    std::string text = to_text(left) + to_text(right);
    budget.bytes(text.size());
    return text;
  }
  defined(left);
  defined(right);
  int64_t i = 0, j = 0;
  double x = 0, y = 0;
  if (as_integer(left, i) && as_integer(right, j) && op != "/" && !(op == "**" && j < 0)) return integers(op, i, j);
  if (as_number(left, x) && as_number(right, y)) return reals(op, x, y);
  if (op == "+" && left.string() != nullptr && right.string() != nullptr) {
    budget.bytes(left.string()->size() + right.string()->size());
    return *left.string() + *right.string();
  }
  if (op == "+" && left.list() != nullptr && right.list() != nullptr &&
      left.list()->is_tuple == right.list()->is_tuple) {
    List joined = *left.list();
    joined.items.insert(joined.items.end(), right.list()->items.begin(), right.list()->items.end());
    budget.step(joined.items.size());
    return joined;
  }
  if (op == "*" && repeats(left) && as_integer(right, j)) return repeat(left, j, budget);
  if (op == "*" && repeats(right) && as_integer(left, i)) return repeat(right, i, budget);
  throw RenderFailure(fmt::format("{} {} {} is not possible", type_name(left), op, type_name(right)));
}

std::optional<int64_t> parse_integer(std::string_view text, int64_t base) {
  if (base != 0 && (base < 2 || base > 36)) return std::nullopt;
  std::string digits = strip_text(text, nullptr, Ends::kBoth);
  const bool is_negative = digits.starts_with('-');
  if (is_negative || digits.starts_with('+')) digits.erase(0, 1);
  const int64_t named = prefixed_base(digits);
  if (named != 0 && (base == 0 || base == named)) {
    base = named;
    digits.erase(0, digits.size() > 2 && digits[2] == '_' ? 3 : 2);
  } else if (base == 0) {
    base = 10;
    if (digits.starts_with('0') && digits.find_first_not_of("0_") != std::string::npos) return std::nullopt;
  }
  const auto plain = without_underscores(digits);
  if (!plain || plain->empty()) return std::nullopt;
  int64_t number = 0;
  bool is_too_large = false;
  for (const char c : *plain) {
    const char letter = static_cast<char>(c | 0x20);
    const int64_t digit = c >= '0' && c <= '9' ? c - '0' : letter >= 'a' && letter <= 'z' ? letter - 'a' + 10 : 36;
    if (digit >= base) return std::nullopt;
    is_too_large = is_too_large || __builtin_mul_overflow(number, base, &number) ||
                   __builtin_add_overflow(number, is_negative ? -digit : digit, &number);
  }
  if (is_too_large) too_large();
  return number;
}

std::optional<double> parse_real(std::string_view text) {
  const auto digits = without_underscores(strip_text(text, nullptr, Ends::kBoth));
  if (!digits || digits->empty()) return std::nullopt;
  const auto body = lower_case(std::string_view(*digits).substr((*digits)[0] == '-' || (*digits)[0] == '+' ? 1 : 0));
  const bool is_name = body == "inf" || body == "infinity" || body == "nan";
  if (!is_name && digits->find_first_not_of("0123456789+-.eE") != std::string::npos) return std::nullopt;
  char* end = nullptr;
  const double number = std::strtod(digits->c_str(), &end);
  if (*end != '\0' || end == digits->c_str()) return std::nullopt;
  return number;
}

Value rounded(const Value& value, int64_t digits) {
  int64_t integer = 0;
  if (as_integer(value, integer)) {
    if (digits >= 0) return integer;
    return digits < -18 ? int64_t{0} : round_to_multiple(integer, power(10, -digits));
  }
  const double number = *value.real();
  if (digits >= 0) return std::strtod(fmt::format("{:.{}f}", number, digits).c_str(), nullptr);
  const double unit = std::pow(10.0, static_cast<double>(-digits));
  return std::nearbyint(number / unit) * unit;
}

Value slice_of(const Value& value, const Value& begin, const Value& end, const Value& step, Budget& budget) {
  defined(value);
  if (value.string() == nullptr && value.list() == nullptr) {
    throw RenderFailure(fmt::format("a {} cannot be sliced", type_name(value)));
  }
  const auto items = items_of(value);
  budget.step(items.size());
  const auto size = static_cast<int64_t>(items.size());
  const int64_t by = step.is_none() ? 1 : integer_in(step);
  if (by == 0) throw RenderFailure("a slice has a step of 0");
  const auto bound = [&](const Value& v, int64_t open) {
    if (v.is_none()) return open;
    const int64_t at = integer_in(v) < 0 ? integer_in(v) + size : integer_in(v);
    return by > 0 ? std::clamp<int64_t>(at, 0, size) : std::clamp<int64_t>(at, -1, size - 1);
  };
  const int64_t last = bound(end, by > 0 ? size : -1);
  List chosen;
  chosen.is_tuple = value.list() != nullptr && value.list()->is_tuple;
  for (int64_t i = bound(begin, by > 0 ? 0 : size - 1); by > 0 ? i < last : i > last;) {
    chosen.items.push_back(items[static_cast<size_t>(i)]);
    if (__builtin_add_overflow(i, by, &i)) break;
  }
  if (value.list() != nullptr) return chosen;
  std::string text;
  for (const Value& item : chosen.items) text += *item.string();
  budget.bytes(text.size());
  return text;
}

}  // namespace lockstep::jinja
