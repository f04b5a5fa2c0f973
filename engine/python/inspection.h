// Graphs, plans and the last steps of an open model as Python's plain data.
#pragma once

#include <nanobind/nanobind.h>

namespace lockstep::python {

/// Adds `graphs`, `plan_json`, `activity`, `directory`, `draft_model` and `fields_of` to the module.
void bind_inspection(nanobind::module_& module);

}  // namespace lockstep::python
