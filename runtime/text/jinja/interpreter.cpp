#include "runtime/text/jinja/interpreter.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/text/jinja/library.h"

namespace lockstep::jinja {
namespace {

constexpr size_t kMaxOutput = size_t{64} << 20;  // bytes

ScopePtr inside(const ScopePtr& parent) {
  auto scope = std::make_shared<Scope>();
  scope->parent = parent;
  return scope;
}

void assign(const std::vector<std::string>& targets, const Value& value, Scope& scope) {
  if (targets.size() == 1) {
    scope.variables[targets[0]] = value;
    return;
  }
  const auto parts = items_of(defined(value));
  if (parts.size() != targets.size()) {
    throw RenderFailure(fmt::format("found {} values for {} variables", parts.size(), targets.size()));
  }
  for (size_t i = 0; i < targets.size(); ++i) scope.variables[targets[i]] = parts[i];
}

/// The variable `loop` in iteration `index`.
Value loop_variable(const std::vector<Value>& items, size_t index) {
  const auto at = static_cast<int64_t>(index);
  const auto length = static_cast<int64_t>(items.size());
  Dict loop;
  const auto add = [&](const char* name, Value value) { loop.items.emplace_back(Value(name), std::move(value)); };
  add("index0", at);
  add("index", at + 1);
  add("revindex0", length - at - 1);
  add("revindex", length - at);
  add("first", index == 0);
  add("last", at + 1 == length);
  add("length", length);
  add("depth0", int64_t{0});  // loops inside of loops count only where they are recursive
  add("depth", int64_t{1});
  add("previtem", index > 0 ? items[index - 1] : Value(Undefined{"loop.previtem of the first turn"}));
  add("nextitem", index + 1 < items.size() ? items[index + 1] : Value(Undefined{"loop.nextitem of the last turn"}));
  add("cycle", Callable{"cycle", [index](const Arguments& arguments) {
                          if (arguments.positional.empty()) throw RenderFailure("cycle needs values");
                          return arguments.positional[index % arguments.positional.size()];
                        }});
  return loop;
}

}  // namespace

Interpreter::Interpreter(Dict variables, std::optional<std::tm> now) : now_(now), root_(std::make_shared<Scope>()) {
  for (auto& [name, value] : variables.items) root_->variables[*name.string()] = std::move(value);
}

std::string Interpreter::run(const Body& body) {
  execute(body, root_);
  return std::move(out_);
}

void Interpreter::print(std::string_view text) {
  if (out_.size() + text.size() > kMaxOutput) throw RenderFailure("makes too much text");
  out_ += text;
}

Interpreter::Flow Interpreter::execute(const Body& body, const ScopePtr& scope) {
  const Level level(depth_);
  for (const Statement& statement : body) {
    if (const Flow flow = execute(statement, scope); flow != Flow::kOn) return flow;
  }
  return Flow::kOn;
}

Interpreter::Flow Interpreter::execute(const Statement& statement, const ScopePtr& scope) {
  line_ = statement.line;
  budget_.step();
  switch (statement.kind) {
    case Statement::Kind::kText: print(statement.text); break;
    case Statement::Kind::kPrint: print(to_text(evaluate(*statement.expression, scope))); break;
    case Statement::Kind::kIf: return execute_if(statement, scope);
    case Statement::Kind::kFor: return execute_for(statement, scope);
    case Statement::Kind::kSet:
    case Statement::Kind::kSetBlock: execute_set(statement, scope); break;
    case Statement::Kind::kMacro: define_macro(statement, scope); break;
    case Statement::Kind::kCall: execute_call(statement, scope); break;
    case Statement::Kind::kFilter:
      print(to_text(filtered(*statement.expression, capture(statement.body, inside(scope)), scope)));
      break;
    case Statement::Kind::kWith: return execute_with(statement, scope);
    case Statement::Kind::kScope: return execute(statement.body, inside(scope));
    case Statement::Kind::kBreak: return Flow::kBreak;
    case Statement::Kind::kContinue: return Flow::kContinue;
  }
  return Flow::kOn;
}

Interpreter::Flow Interpreter::execute_if(const Statement& statement, const ScopePtr& scope) {
  for (const Statement::Branch& branch : statement.branches) {
    if (!branch.condition || truthy(evaluate(*branch.condition, scope))) return execute(branch.body, scope);
  }
  return Flow::kOn;
}

Interpreter::Flow Interpreter::execute_for(const Statement& statement, const ScopePtr& scope) {
  std::vector<Value> items = items_of(evaluate(*statement.expression, scope));
  budget_.step(items.size());
  if (statement.condition) {
    std::vector<Value> kept;
    for (Value& item : items) {
      const ScopePtr turn = inside(scope);
      assign(statement.targets, item, *turn);
      if (truthy(evaluate(*statement.condition, turn))) kept.push_back(std::move(item));
    }
    items = std::move(kept);
  }
  if (items.empty()) return execute(statement.otherwise, inside(scope));
  for (size_t i = 0; i < items.size(); ++i) {
    budget_.step(16);  // an iteration allocates more than other steps
    const ScopePtr turn = inside(scope);
    turn->variables["loop"] = loop_variable(items, i);
    assign(statement.targets, items[i], *turn);
    if (execute(statement.body, turn) == Flow::kBreak) break;
  }
  return Flow::kOn;
}

void Interpreter::execute_set(const Statement& statement, const ScopePtr& scope) {
  Value value;
  if (statement.kind == Statement::Kind::kSetBlock) {
    value = capture(statement.body, inside(scope));
    if (statement.expression) value = filtered(*statement.expression, std::move(value), scope);
  } else {
    value = evaluate(*statement.expression, scope);
  }
  if (statement.text.empty()) return assign(statement.targets, value, *scope);
  const Value target = lookup(statement.text, scope);
  if (target.name_space() == nullptr) {
    throw RenderFailure(fmt::format("found {} of type {}, expected a namespace", statement.text, type_name(target)));
  }
  if (value.name_space() != nullptr) throw RenderFailure("a namespace cannot hold a namespace");
  check_member(statement.targets[0]);
  budget_.step(target.name_space()->members.items.size());
  target.name_space()->members.set(Value(statement.targets[0]), std::move(value));
}

void Interpreter::define_macro(const Statement& statement, const ScopePtr& scope) {
  scope->variables[statement.text] = make_macro(statement, statement.text, scope);
}

/// The macro refers weakly to the scope of its definition, because a scope owns its macros.
Value Interpreter::make_macro(const Statement& statement, std::string name, const ScopePtr& scope) {
  return Callable{std::move(name), [this, &statement, home = std::weak_ptr<Scope>(scope)](const Arguments& arguments) {
                    const ScopePtr parent = home.lock();
                    if (!parent) throw RenderFailure("a macro is called after its variables are gone");
                    return call_macro(statement, parent, arguments);
                  }};
}

Value Interpreter::call_macro(const Statement& statement, const ScopePtr& scope, const Arguments& arguments) {
  const Level level(depth_);
  const ScopePtr local = inside(scope);
  const auto& parameters = statement.parameters;
  if (arguments.positional.size() > parameters.size()) {
    throw RenderFailure(
        fmt::format("found {} arguments, expected at most {}", arguments.positional.size(), parameters.size()));
  }
  for (size_t i = 0; i < parameters.size(); ++i) {
    const Parameter& parameter = parameters[i];
    if (const Value* given = arguments.find(i, parameter.name)) {
      local->variables[parameter.name] = *given;
    } else {
      local->variables[parameter.name] =
          parameter.fallback ? evaluate(*parameter.fallback, local) : Value(Undefined{"'" + parameter.name + "'"});
    }
  }
  for (const auto& [name, value] : arguments.named) {
    const bool known =
        std::any_of(parameters.begin(), parameters.end(), [&, &n = name](const Parameter& p) { return p.name == n; });
    if (!known && name != "caller") throw RenderFailure(fmt::format("found the argument {}, which is not known", name));
    if (!known) local->variables["caller"] = value;
  }
  return capture(statement.body, local);
}

void Interpreter::execute_call(const Statement& statement, const ScopePtr& scope) {
  const Value caller = make_macro(statement, "caller", scope);
  print(to_text(call(*statement.expression, scope, &caller)));
}

Interpreter::Flow Interpreter::execute_with(const Statement& statement, const ScopePtr& scope) {
  const ScopePtr local = inside(scope);
  for (const Parameter& assignment : statement.parameters) {
    Value value = evaluate(*assignment.fallback, scope);
    local->variables[assignment.name] = std::move(value);
  }
  return execute(statement.body, local);
}

std::string Interpreter::capture(const Body& body, const ScopePtr& scope) {
  std::string outer = std::exchange(out_, {});
  execute(body, scope);
  budget_.bytes(out_.size());
  return std::exchange(out_, std::move(outer));
}

}  // namespace lockstep::jinja
