# libtorch from the PyPI wheel in .venv: headers, libtorch_cpu and libc10, without CUDA and without importing torch
# (its own CMake package demands a CUDA toolkit). Set Libtorch_PYTHON to the interpreter that has the wheel.
if(Libtorch_PYTHON AND NOT Libtorch_ROOT)
  execute_process(
    COMMAND "${Libtorch_PYTHON}" -c
            "import importlib.util as u; s=u.find_spec('torch'); print(s.submodule_search_locations[0] if s else '')"
    OUTPUT_VARIABLE _libtorch_dir OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
find_path(Libtorch_INCLUDE_DIR NAMES ATen/core/Tensor.h HINTS ${Libtorch_ROOT} ${_libtorch_dir}
          PATH_SUFFIXES include NO_DEFAULT_PATH)
find_library(Libtorch_CPU_LIBRARY NAMES torch_cpu HINTS ${Libtorch_ROOT} ${_libtorch_dir}
             PATH_SUFFIXES lib NO_DEFAULT_PATH)
find_library(Libtorch_C10_LIBRARY NAMES c10 HINTS ${Libtorch_ROOT} ${_libtorch_dir} PATH_SUFFIXES lib NO_DEFAULT_PATH)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Libtorch REQUIRED_VARS Libtorch_INCLUDE_DIR Libtorch_CPU_LIBRARY Libtorch_C10_LIBRARY)
if(Libtorch_FOUND AND NOT TARGET Libtorch::cpu)
  add_library(Libtorch::c10 SHARED IMPORTED)
  set_target_properties(Libtorch::c10 PROPERTIES IMPORTED_LOCATION "${Libtorch_C10_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${Libtorch_INCLUDE_DIR}")
  add_library(Libtorch::cpu SHARED IMPORTED)
  set_target_properties(Libtorch::cpu PROPERTIES IMPORTED_LOCATION "${Libtorch_CPU_LIBRARY}"
    INTERFACE_LINK_LIBRARIES Libtorch::c10)
endif()
