# The Python that the package lockstep is built for, and nanobind, which binds it to C++.

# lockstep_find_nanobind()
# Sets nanobind_FOUND: nanobind and the headers of one Python. pip has chosen the Python already where it calls CMake.
macro(lockstep_find_nanobind)
  if(NOT DEFINED SKBUILD)
    set(Python_EXECUTABLE "${LOCKSTEP_PYTHON}")
  endif()
  set(Python_FIND_VIRTUALENV ONLY)
  find_package(Python 3.11 QUIET COMPONENTS Interpreter Development.Module OPTIONAL_COMPONENTS Development.SABIModule)
  set(nanobind_FOUND FALSE)
  if(Python_FOUND)
    execute_process(COMMAND "${Python_EXECUTABLE}" -m nanobind --cmake_dir
                    OUTPUT_VARIABLE nanobind_ROOT OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    find_package(nanobind CONFIG QUIET)
  endif()
endmacro()
