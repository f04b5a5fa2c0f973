#include "runtime/text/jinja/arithmetic.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

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

Value reals(std::string_view op, double a, double b) {
  if (op == "+") return a + b;
  if (op == "-") return a - b;
  if (op == "*") return a * b;
  if (op == "**") return std::pow(a, b);
  if (b == 0) throw RenderFailure("division by zero");
  if (op == "/") return a / b;
  if (op == "//") return std::floor(a / b);
  const double rest = std::fmod(a, b);
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
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
  if (op == "+" && left.list() != nullptr && right.list() != nullptr) {
    List joined = *left.list();
    joined.items.insert(joined.items.end(), right.list()->items.begin(), right.list()->items.end());
    budget.step(joined.items.size());
    return joined;
  }
  if (op == "*" && repeats(left) && as_integer(right, j)) return repeat(left, j, budget);
  if (op == "*" && repeats(right) && as_integer(left, i)) return repeat(right, i, budget);
  throw RenderFailure(fmt::format("{} {} {} is not possible", type_name(left), op, type_name(right)));
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
