// Runs a parsed template.
#pragma once

#include <ctime>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "runtime/text/jinja/ast.h"
#include "runtime/text/jinja/budget.h"

namespace lockstep::jinja {

/// Variables of a loop iteration, a macro call or the template; missing ones are looked up in the parent.
struct Scope {
  std::shared_ptr<Scope> parent;
  std::map<std::string, Value, std::less<>> variables;

  const Value* find(std::string_view name) const {
    for (const Scope* scope = this; scope != nullptr; scope = scope->parent.get()) {
      if (const auto entry = scope->variables.find(name); entry != scope->variables.end()) return &entry->second;
    }
    return nullptr;
  }
};
using ScopePtr = std::shared_ptr<Scope>;

/// One rendering. Throws `RenderFailure`; `line()` is its location. The template outlives it.
class Interpreter {
 public:
  Interpreter(Dict variables, std::optional<std::tm> now);

  std::string run(const Body& body);
  /// The line of the last evaluation.
  int line() const { return line_; }

 private:
  /// Counts a level of recursion during its lifetime.
  class Level {
   public:
    explicit Level(int& depth) : depth_(depth) {
      if (depth_ >= kMax) throw RenderFailure("calls are nested too deeply");
      ++depth_;
    }
    ~Level() { --depth_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    static constexpr int kMax = 600;
    int& depth_;
  };

  enum class Flow { kOn, kBreak, kContinue };

  Flow execute(const Body& body, const ScopePtr& scope);
  Flow execute(const Statement& statement, const ScopePtr& scope);
  Flow execute_if(const Statement& statement, const ScopePtr& scope);
  Flow execute_for(const Statement& statement, const ScopePtr& scope);
  void execute_set(const Statement& statement, const ScopePtr& scope);
  void execute_call(const Statement& statement, const ScopePtr& scope);
  void define_macro(const Statement& statement, const ScopePtr& scope);
  Flow execute_with(const Statement& statement, const ScopePtr& scope);
  /// The output of `body`.
  std::string capture(const Body& body, const ScopePtr& scope);
  Value make_macro(const Statement& statement, std::string name, const ScopePtr& scope);
  Value call_macro(const Statement& statement, const ScopePtr& scope, const Arguments& arguments);
  void print(std::string_view text);

  Value evaluate(const Expression& expression, const ScopePtr& scope);
  Value lookup(const std::string& name, const ScopePtr& scope);
  Value slice(const Expression& expression, const ScopePtr& scope);
  Value condition(const Expression& expression, const ScopePtr& scope);
  Value unary(const Expression& expression, const ScopePtr& scope);
  Value binary(const Expression& expression, const ScopePtr& scope);
  bool compare_chain(const Expression& expression, const ScopePtr& scope);
  Value dictionary(const Expression& expression, const ScopePtr& scope);
  Value call(const Expression& expression, const ScopePtr& scope, const Value* caller);
  Arguments arguments(const Expression& expression, const ScopePtr& scope);
  /// Applies the filters of a block to `text`, innermost first.
  Value filtered(const Expression& filters, Value text, const ScopePtr& scope);

  Budget budget_;
  std::optional<std::tm> now_;
  ScopePtr root_;
  std::string out_;
  int line_ = 1;
  int depth_ = 0;  // current recursion depth
};

}  // namespace lockstep::jinja
