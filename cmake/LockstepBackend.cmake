# Backends: which of them a build has, and how one comes into being. A build without one keeps its name and its options,
# and says how to get it.
option(LOCKSTEP_WITH_NEURON "The backend for AWS Neuron; needs Protocol Buffers" ON)
set(LOCKSTEP_WITH_CACHE "AUTO" CACHE STRING "The compile cache, for backends that compile ahead of time; needs headers of \
libcurl: ON, OFF, or AUTO (with such a backend)")
set(LOCKSTEP_WITH_REFERENCE "AUTO" CACHE STRING "The reference backend; needs libtorch: ON, OFF, or AUTO (where it is found)")
set_property(CACHE LOCKSTEP_WITH_CACHE LOCKSTEP_WITH_REFERENCE PROPERTY STRINGS AUTO ON OFF)

# From here on each is ON or OFF, and the packages of those that are ON are there.
if(LOCKSTEP_WITH_CACHE STREQUAL "AUTO")
  set(LOCKSTEP_WITH_CACHE ${LOCKSTEP_WITH_NEURON})
endif()
if(LOCKSTEP_WITH_REFERENCE STREQUAL "AUTO")
  find_package(Libtorch QUIET)
  set(LOCKSTEP_WITH_REFERENCE OFF)
  if(Libtorch_FOUND)
    set(LOCKSTEP_WITH_REFERENCE ON)
  endif()
elseif(LOCKSTEP_WITH_REFERENCE)
  find_package(Libtorch REQUIRED)
endif()
if(LOCKSTEP_WITH_NEURON)
  find_package(Protobuf 3.21 REQUIRED)
endif()
if(LOCKSTEP_WITH_CACHE)
  find_package(CURL 7.75 REQUIRED)
endif()
message(STATUS "Options: neuron ${LOCKSTEP_WITH_NEURON}, reference ${LOCKSTEP_WITH_REFERENCE}, compile cache ${LOCKSTEP_WITH_CACHE}")

# lockstep_add_backend(NAME name [OPTION variable] SOURCES file… [ALWAYS file…] [INSTEAD file…] [PUBLIC target…] [PRIVATE target…])
# The library lockstep_runtime_backends_<name>, which every program links: of SOURCES and ALWAYS where the option is ON
# (or there is none), of INSTEAD and ALWAYS, without the PRIVATE libraries, elsewhere.
function(lockstep_add_backend)
  cmake_parse_arguments(ARG "" "NAME;OPTION" "SOURCES;ALWAYS;INSTEAD;PUBLIC;PRIVATE" ${ARGN})
  set(target lockstep_runtime_backends_${ARG_NAME})
  if(NOT DEFINED ARG_OPTION)
    set(ARG_OPTION TRUE)
  endif()
  if(${ARG_OPTION})
    lockstep_add_library(NAME ${target} SOURCES ${ARG_SOURCES} ${ARG_ALWAYS}
                         PUBLIC lockstep_runtime_device ${ARG_PUBLIC} PRIVATE ${ARG_PRIVATE})
  else()
    lockstep_add_library(NAME ${target} SOURCES ${ARG_INSTEAD} ${ARG_ALWAYS} PUBLIC lockstep_runtime_device ${ARG_PUBLIC})
  endif()
  set_property(GLOBAL APPEND PROPERTY LOCKSTEP_BACKENDS ${target})
endfunction()
