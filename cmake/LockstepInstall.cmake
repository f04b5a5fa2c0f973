# The files of `cmake --install`, for programs that use find_package(lockstep):
#
#   bin/lockstep
#   lib/liblockstep.so             everything below lockstep::engine in one library; programs link it, fmt and Boost's headers
#   lib/liblockstep.a              the same without its dependencies: programs also link those
#   lib/liblockstep_backend_reference.so
#   lib/cmake/lockstep             lockstep::engine, lockstep::engine_shared, lockstep::engine_static
#   include/lockstep-MAJOR.MINOR   lockstep/*.h and what they include
#   share                          completion files of bash, zsh and fish; the manual page
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

option(LOCKSTEP_SHARED "Build liblockstep.so" ON)
set(LOCKSTEP_INCLUDE_INSTALL_DIR
    "${CMAKE_INSTALL_INCLUDEDIR}/lockstep-${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}")
set(LOCKSTEP_CONFIG_INSTALL_DIR "${CMAKE_INSTALL_LIBDIR}/cmake/lockstep")

# Lockstep's static libraries that `target` needs, itself included.
function(lockstep_collect_libraries target)
  get_property(known GLOBAL PROPERTY LOCKSTEP_COLLECTED)
  if("${target}" IN_LIST known)
    return()
  endif()
  get_target_property(type ${target} TYPE)
  if(type STREQUAL "STATIC_LIBRARY")
    set_property(GLOBAL APPEND PROPERTY LOCKSTEP_COLLECTED ${target})
  endif()
  get_target_property(links ${target} INTERFACE_LINK_LIBRARIES)  # for a static library also the private ones
  foreach(link IN LISTS links)
    string(REGEX REPLACE "^\\$<LINK_ONLY:(.*)>$" "\\1" link "${link}")
    if(link MATCHES "^lockstep_" AND TARGET "${link}")
      lockstep_collect_libraries(${link})
    endif()
  endforeach()
endfunction()
lockstep_collect_libraries(lockstep_engine_inspect)  # and lockstep_engine, which it needs
get_property(LOCKSTEP_STATIC_PARTS GLOBAL PROPERTY LOCKSTEP_COLLECTED)

# The third-party dependencies of those libraries.
set(LOCKSTEP_STATIC_DEPENDENCIES caf_io caf_core crypto hwloc pcre2-8 utf8proc)
if(LOCKSTEP_WITH_CACHE)
  list(APPEND LOCKSTEP_STATIC_DEPENDENCIES capnp kj)
endif()
if(LOCKSTEP_WITH_NEURON)
  list(APPEND LOCKSTEP_STATIC_DEPENDENCIES protobuf-lite)
endif()
list(APPEND LOCKSTEP_STATIC_DEPENDENCIES ${CMAKE_DL_LIBS})

if(LOCKSTEP_SHARED)
  file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/lockstep_shared.cpp" CONTENT "")
  add_library(lockstep_shared SHARED "${PROJECT_BINARY_DIR}/lockstep_shared.cpp")
  # Whole archives, because programs need what public headers declare, even if the library itself does not.
  list(TRANSFORM LOCKSTEP_STATIC_PARTS REPLACE "(.+)" "$<TARGET_FILE:\\1>" OUTPUT_VARIABLE archives)
  add_dependencies(lockstep_shared ${LOCKSTEP_STATIC_PARTS})
  target_link_libraries(lockstep_shared PRIVATE -Wl,--whole-archive ${archives} -Wl,--no-whole-archive lockstep_flags
                                                fmt::fmt Threads::Threads ${LOCKSTEP_STATIC_DEPENDENCIES})
  set_property(TARGET lockstep_shared PROPERTY LINK_DEPENDS ${archives})
  set_target_properties(lockstep_shared PROPERTIES
                        OUTPUT_NAME lockstep VERSION "${PROJECT_VERSION}"
                        SOVERSION "${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}" INSTALL_RPATH "$ORIGIN")
  # DT_RPATH: the libraries beside it are found for the libraries that it needs, too (engine/python/bundle.cmake).
  # Its own calls are bound by the linker, not at every start: its part of a start takes 1.1 ms instead of 3.5.
  target_link_options(lockstep_shared PRIVATE -Wl,--disable-new-dtags -Wl,-Bsymbolic-functions)
  install(TARGETS lockstep_shared LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}")
endif()

# One archive of all, made at installation, because the build does not need it.
set(script "${PROJECT_BINARY_DIR}/liblockstep.ar")
set(members "")
foreach(part IN LISTS LOCKSTEP_STATIC_PARTS)
  string(APPEND members "addlib $<TARGET_FILE:${part}>\n")
endforeach()
file(GENERATE OUTPUT "${script}" CONTENT "create ${PROJECT_BINARY_DIR}/liblockstep.a\n${members}save\nend\n")
install(CODE "execute_process(COMMAND \"${CMAKE_AR}\" -M INPUT_FILE \"${script}\" COMMAND_ERROR_IS_FATAL ANY)")
install(FILES "${PROJECT_BINARY_DIR}/liblockstep.a" DESTINATION "${CMAKE_INSTALL_LIBDIR}")

install(TARGETS lockstep RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
if(TARGET lockstep-serve)
  install(TARGETS lockstep-serve lockstep-constraint RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
endif()
# Files that the program prints; a cross-compiled program does not run here.
if(NOT CMAKE_CROSSCOMPILING)
  function(lockstep_install_text destination name)
    set(folder "${PROJECT_BINARY_DIR}/share/${destination}")
    file(MAKE_DIRECTORY "${folder}")
    list(JOIN ARGN " " words)
    install(CODE "execute_process(COMMAND \"$<TARGET_FILE:lockstep>\" ${words} OUTPUT_FILE \"${folder}/${name}\" COMMAND_ERROR_IS_FATAL ANY)")
    install(FILES "${folder}/${name}" DESTINATION "${CMAKE_INSTALL_DATADIR}/${destination}")
  endfunction()
  lockstep_install_text(bash-completion/completions lockstep completion bash)
  lockstep_install_text(zsh/site-functions _lockstep completion zsh)
  lockstep_install_text(fish/vendor_completions.d lockstep.fish completion fish)
  lockstep_install_text(man/man1 lockstep.1 man)
endif()
if(LOCKSTEP_WITH_REFERENCE)
  install(TARGETS lockstep_backend_reference LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}")
endif()

install(DIRECTORY "${PROJECT_SOURCE_DIR}/engine/include/lockstep" DESTINATION "${LOCKSTEP_INCLUDE_INSTALL_DIR}"
        FILES_MATCHING PATTERN "*.h")
# The headers that the public headers include; tests/consumer fails if one is missing.
foreach(header IN ITEMS
        runtime/checkpoint/model_spec.h
        runtime/checkpoint/quantised_copy.h
        runtime/checkpoint/verified_model.h
        runtime/checkpoint/weight_formats.h
        runtime/constraint/constraint.h
        runtime/core/block_tree.h
        runtime/core/cache_rows.h
        runtime/core/check.h
        runtime/core/clock.h
        runtime/core/dtype.h
        runtime/core/field_list.h
        runtime/core/ids.h
        runtime/core/log.h
        runtime/core/result.h
        runtime/core/shape.h
        runtime/core/weight_format.h
        runtime/device/device_time.h
        runtime/generation/constraint_processors.h
        runtime/generation/finish_reason.h
        runtime/generation/generation_config.h
        runtime/generation/logits_processor.h
        runtime/generation/option_rows.h
        runtime/generation/stopping.h
        runtime/generation/token_chooser.h
        runtime/generation/token_record.h
        runtime/generation/token_times.h
        runtime/graph/graph.h
        runtime/sampling/sampling.h
        runtime/text/chat_template.h
        runtime/text/tokenizer.h
        runtime/trace/fixed_log.h
        runtime/trace/activity.h
        runtime/trace/rank_report.h
        runtime/trace/straggler.h
        runtime/trace/time_split.h
        runtime/trace/timeline.h
        shards/partition/options.h)
  cmake_path(GET header PARENT_PATH folder)
  install(FILES "${PROJECT_SOURCE_DIR}/${header}" DESTINATION "${LOCKSTEP_INCLUDE_INSTALL_DIR}/${folder}")
endforeach()

configure_package_config_file(
  "${PROJECT_SOURCE_DIR}/cmake/lockstepConfig.cmake.in" "${PROJECT_BINARY_DIR}/lockstepConfig.cmake"
  INSTALL_DESTINATION "${LOCKSTEP_CONFIG_INSTALL_DIR}"
  PATH_VARS LOCKSTEP_INCLUDE_INSTALL_DIR CMAKE_INSTALL_LIBDIR)
write_basic_package_version_file("${PROJECT_BINARY_DIR}/lockstepConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/lockstepConfig.cmake" "${PROJECT_BINARY_DIR}/lockstepConfigVersion.cmake"
        DESTINATION "${LOCKSTEP_CONFIG_INSTALL_DIR}")
