// Evaluation of expressions.
#include <fmt/format.h>

#include "runtime/text/jinja/arithmetic.h"
#include "runtime/text/jinja/interpreter.h"
#include "runtime/text/jinja/library.h"

namespace lockstep::jinja {

using Kind = Expression::Kind;

Value Interpreter::evaluate(const Expression& expression, const ScopePtr& scope) {
  const Level level(depth_);
  line_ = expression.line;
  budget_.step();
  const auto child = [&](size_t i) { return evaluate(*expression.children[i], scope); };
  switch (expression.kind) {
    case Kind::kConstant: return expression.constant;
    case Kind::kName: return lookup(expression.name, scope);
    case Kind::kList:
    case Kind::kTuple: {
      List list;
      list.is_tuple = expression.kind == Kind::kTuple;
      for (const auto& item : expression.children) list.items.push_back(evaluate(*item, scope));
      return list;
    }
    case Kind::kDict: return dictionary(expression, scope);
    case Kind::kAttribute: return attribute_of(child(0), expression.name, budget_);
    case Kind::kItem: {
      const Value value = child(0);
      const Value item = item_of(value, child(1));
      // A constant string without a matching item may name a method, as in message['items'].
      if (!item.is_undefined() || expression.children[1]->kind != Kind::kConstant) return item;
      const std::string* name = expression.children[1]->constant.string();
      return name == nullptr || value.name_space() != nullptr ? item : attribute_of(value, *name, budget_);
    }
    case Kind::kSlice: return slice(expression, scope);
    case Kind::kCall: return call(expression, scope, nullptr);
    case Kind::kFilter: {
      const Value value = child(0);
      return apply_filter(expression.name, value, arguments(expression, scope), budget_);
    }
    case Kind::kTest: {
      const Value value = child(0);
      return apply_test(expression.name, value, arguments(expression, scope));
    }
    case Kind::kUnary: return unary(expression, scope);
    case Kind::kBinary: return binary(expression, scope);
    case Kind::kCompare: return compare_chain(expression, scope);
    case Kind::kCondition: return condition(expression, scope);
  }
  return {};
}

Value Interpreter::lookup(const std::string& name, const ScopePtr& scope) {
  if (const Value* value = scope->find(name)) return *value;
  return function_named(name, now_, budget_);
}

Value Interpreter::slice(const Expression& expression, const ScopePtr& scope) {
  const auto bound = [&](size_t i) {
    return expression.children[i] ? evaluate(*expression.children[i], scope) : Value();
  };
  const Value value = evaluate(*expression.children[0], scope);
  const Value begin = bound(1);
  const Value end = bound(2);
  return slice_of(value, begin, end, bound(3), budget_);
}

Value Interpreter::condition(const Expression& expression, const ScopePtr& scope) {
  if (truthy(evaluate(*expression.children[1], scope))) return evaluate(*expression.children[0], scope);
  if (expression.children[2]) return evaluate(*expression.children[2], scope);
  return Undefined{"the value of an if that has no else"};
}

Value Interpreter::unary(const Expression& expression, const ScopePtr& scope) {
  const Value value = evaluate(*expression.children[0], scope);
  if (expression.name == "not") return !truthy(value);
  if (const double* real = value.real()) return expression.name == "-" ? -*real : *real;
  return arithmetic(expression.name, int64_t{0}, value, budget_);
}

Value Interpreter::binary(const Expression& expression, const ScopePtr& scope) {
  const Value left = evaluate(*expression.children[0], scope);
  if (expression.name == "and" && !truthy(left)) return left;
  if (expression.name == "or" && truthy(left)) return left;
  const Value right = evaluate(*expression.children[1], scope);
  if (expression.name == "and" || expression.name == "or") return right;
  return arithmetic(expression.name, left, right, budget_);
}

bool Interpreter::compare_chain(const Expression& expression, const ScopePtr& scope) {
  Value left = evaluate(*expression.children[0], scope);
  for (size_t i = 0; i < expression.operators.size(); ++i) {
    const std::string& op = expression.operators[i];
    Value right = evaluate(*expression.children[i + 1], scope);
    bool holds = false;
    if (op == "==" || op == "!=") {
      holds = equal(left, right) == (op == "==");
    } else if (op == "in" || op == "not in") {
      holds = contains(right, left) == (op == "in");
    } else {
      const int order = compare(left, right);
      holds = op == "<" ? order < 0 : op == "<=" ? order <= 0 : op == ">" ? order > 0 : order >= 0;
    }
    if (!holds) return false;
    left = std::move(right);
  }
  return true;
}

Value Interpreter::dictionary(const Expression& expression, const ScopePtr& scope) {
  Dict dict;
  for (size_t i = 0; i + 1 < expression.children.size(); i += 2) {
    Value key = evaluate(*expression.children[i], scope);
    Value value = evaluate(*expression.children[i + 1], scope);
    if (defined(key).list() != nullptr || key.dict() != nullptr) throw RenderFailure("a list or dict cannot be a key");
    budget_.step(dict.items.size());
    dict.set(std::move(key), std::move(value));
  }
  return dict;
}

Arguments Interpreter::arguments(const Expression& expression, const ScopePtr& scope) {
  Arguments given;
  for (size_t i = 1; i < expression.children.size(); ++i) {
    given.positional.push_back(evaluate(*expression.children[i], scope));
  }
  for (const auto& [name, value] : expression.named) given.named.emplace_back(name, evaluate(*value, scope));
  return given;
}

Value Interpreter::call(const Expression& expression, const ScopePtr& scope, const Value* caller) {
  const Value function = evaluate(*expression.children[0], scope);
  Arguments given = arguments(expression, scope);
  if (caller != nullptr) given.named.emplace_back("caller", *caller);
  line_ = expression.line;
  if (function.callable() == nullptr) {
    throw RenderFailure(fmt::format("a {} cannot be called", type_name(defined(function))));
  }
  return function.callable()->call(given);
}

Value Interpreter::filtered(const Expression& filters, Value text, const ScopePtr& scope) {
  if (filters.children[0]) text = filtered(*filters.children[0], std::move(text), scope);
  line_ = filters.line;
  return apply_filter(filters.name, text, arguments(filters, scope), budget_);
}

}  // namespace lockstep::jinja
