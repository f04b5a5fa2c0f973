#include "engine/python/errors.h"

#include <fmt/format.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>

namespace lockstep::python {

void raise(const Error& error) {
  const nb::object made = nb::module_::import_("lockstep.errors")
                              .attr("from_engine")(to_string(error.kind), error.message, error.origin_rank);
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(made.ptr())), made.ptr());
  throw nb::python_error();
}

Error inside_callback(std::string_view what) {
  return {
      ErrorKind::kFailedPrecondition,
      fmt::format("[python] cannot {} the model: found a call inside one of its own callbacks, which its ranks wait "
                  "for, expected a call outside; use another model in a callback",
                  what)};
}

}  // namespace lockstep::python
