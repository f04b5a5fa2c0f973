# Embeds a text file as a string of a library, at build time.
#
#   include(EmbedText)
#   lockstep_embed_text(TARGET lockstep_launcher FILE sweep/sweep_page.html NAMESPACE lockstep::launcher NAME kSweepPage)
#
# A source of the target declares it: `extern const std::string_view kSweepPage;`. PARTS are files of the same folder:
# each takes the place of its name in double braces, `{{page.css}}`. As a script (cmake -P) this file writes the
# generated source.
if(CMAKE_SCRIPT_MODE_FILE)
  file(READ "${FILE}" text)
  get_filename_component(folder "${FILE}" DIRECTORY)
  foreach(part IN LISTS PARTS)
    file(READ "${folder}/${part}" content)
    string(REPLACE "{{${part}}}" "${content}" text "${text}")
  endforeach()
  file(WRITE "${OUTPUT}" "#include <string_view>\n\nnamespace ${NAMESPACE} {\nextern const std::string_view ${NAME};\n"
                         "constinit const std::string_view ${NAME} = R\"embedded(${text})embedded\";\n"
                         "}  // namespace ${NAMESPACE}\n")
  return()
endif()

set(lockstep_embed_script "${CMAKE_CURRENT_LIST_FILE}")

function(lockstep_embed_text)
  cmake_parse_arguments(ARG "" "TARGET;FILE;NAMESPACE;NAME" "PARTS" ${ARGN})
  set(file "${CMAKE_CURRENT_SOURCE_DIR}/${ARG_FILE}")
  set(output "${CMAKE_CURRENT_BINARY_DIR}/${ARG_NAME}.cpp")
  get_filename_component(folder "${file}" DIRECTORY)
  set(parts ${ARG_PARTS})
  list(TRANSFORM parts PREPEND "${folder}/")
  add_custom_command(
    OUTPUT "${output}"
    COMMAND "${CMAKE_COMMAND}" -D "FILE=${file}" -D "PARTS=${ARG_PARTS}" -D "OUTPUT=${output}"
            -D "NAMESPACE=${ARG_NAMESPACE}" -D "NAME=${ARG_NAME}" -P "${lockstep_embed_script}"
    DEPENDS "${file}" ${parts} "${lockstep_embed_script}"
    VERBATIM)
  target_sources(${ARG_TARGET} PRIVATE "${output}")
endfunction()
