// A module that the loader must refuse.
#include "runtime/backends/reference/module.h"

extern "C" const lockstep::reference::Module* lockstep_backend_reference_module() {
  static const lockstep::reference::Module module{"a module from the future", nullptr};
  return &module;
}
