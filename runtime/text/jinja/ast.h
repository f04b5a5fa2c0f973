// The syntax tree of a template: statements and expressions.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/text/jinja/value.h"

namespace lockstep::jinja {

struct Expression;
using ExpressionPtr = std::unique_ptr<Expression>;

struct Expression {
  enum class Kind {
    kConstant,   // constant
    kName,       // name
    kList,       // children
    kTuple,      // children
    kDict,       // children: key, value, key, value …
    kAttribute,  // children[0] . name
    kItem,       // children[0] [ children[1] ]
    kSlice,      // children[0] [ children[1] : children[2] : children[3] ]; absent ones are null
    kCall,       // children[0] ( children[1] …, named )
    kFilter,  // children[0] | name ( children[1] …, named ); children[0] is null in {% filter %} and {% set %} blocks
    kTest,    // children[0] is name ( children[1] … )
    kUnary,   // name children[0]: "-", "+", "not"
    kBinary,  // children[0] name children[1]: arithmetic, "~", "and", "or"
    kCompare,    // children[0] operators[0] children[1] operators[1] children[2] …
    kCondition,  // children[0] if children[1] else children[2], which may be null
  };
  Kind kind = Kind::kConstant;
  int line = 1;
  int depth = 1;  // nesting depth of expressions
  std::string name;
  Value constant;
  std::vector<ExpressionPtr> children;
  std::vector<std::pair<std::string, ExpressionPtr>> named;
  std::vector<std::string> operators;
};

struct Statement;
using Body = std::vector<Statement>;

/// A parameter of a macro or a call block.
struct Parameter {
  std::string name;
  ExpressionPtr fallback;  // null: undefined
};

struct Statement {
  enum class Kind {
    kText,      // text
    kPrint,     // expression
    kIf,        // branches in order; a null condition is `else`
    kFor,       // targets in expression if condition: body else otherwise
    kSet,       // targets = expression, or text.targets[0] = expression for a namespace's member
    kSetBlock,  // targets[0] = body, through the filters of expression, which may be null
    kMacro,     // text ( parameters ): body
    kCall,      // expression, with `caller` ( parameters ): body
    kFilter,    // body through the filters of expression
    kWith,      // assignments of parameters, then body
    kScope,     // body: {% generation %}
    kBreak,
    kContinue,
  };
  struct Branch {
    ExpressionPtr condition;
    Body body;
  };
  Kind kind = Kind::kText;
  int line = 1;
  std::string text;
  ExpressionPtr expression;
  ExpressionPtr condition;
  std::vector<std::string> targets;
  std::vector<Parameter> parameters;
  std::vector<Branch> branches;
  Body body;
  Body otherwise;
};

}  // namespace lockstep::jinja
