# Adds backends. A build without one keeps its name and options; using it is an error that names the build option.

# lockstep_add_backend(NAME name [OPTIONS variable…] SOURCES file… [ALWAYS file…] [INSTEAD file…] [PUBLIC target…] [PRIVATE target…])
# The library lockstep_runtime_backends_<name>, which every program links. It has SOURCES and ALWAYS if all options are
# ON; else INSTEAD and ALWAYS, without the PRIVATE libraries, and LOCKSTEP_MISSING_OPTION names the first option that is
# OFF.
function(lockstep_add_backend)
  cmake_parse_arguments(ARG "" "NAME" "OPTIONS;SOURCES;ALWAYS;INSTEAD;PUBLIC;PRIVATE" ${ARGN})
  set(target lockstep_runtime_backends_${ARG_NAME})
  set(missing "")
  foreach(option IN LISTS ARG_OPTIONS)
    if(NOT ${option} AND missing STREQUAL "")
      set(missing ${option})
    endif()
  endforeach()
  if(missing STREQUAL "")
    lockstep_add_library(NAME ${target} SOURCES ${ARG_SOURCES} ${ARG_ALWAYS}
                         PUBLIC lockstep_runtime_device ${ARG_PUBLIC} PRIVATE ${ARG_PRIVATE})
  else()
    lockstep_add_library(NAME ${target} SOURCES ${ARG_INSTEAD} ${ARG_ALWAYS} PUBLIC lockstep_runtime_device ${ARG_PUBLIC})
    target_compile_definitions(${target} PRIVATE LOCKSTEP_MISSING_OPTION="${missing}")
  endif()
  set_property(GLOBAL APPEND PROPERTY LOCKSTEP_BACKENDS ${target})
endfunction()
