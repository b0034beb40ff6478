# SPDX-License-Identifier: Apache-2.0
# Refuses the tools that the toolkit's functions cannot work with, each in one sentence.
if(CMAKE_VERSION VERSION_LESS 3.18)
  message(FATAL_ERROR "cmake ${CMAKE_VERSION} is too old, 3.18 or later is needed: pip install cmake.")
endif()
if(NOT CMAKE_GENERATOR STREQUAL "Unix Makefiles")
  message(FATAL_ERROR "The generator is ${CMAKE_GENERATOR}, but CANN's functions write makefiles: configure a new folder "
                      "with -G \"Unix Makefiles\".")
endif()
if("${CMAKE_SOURCE_DIR}${CMAKE_BINARY_DIR}" MATCHES " ")
  message(FATAL_ERROR "The source tree ${CMAKE_SOURCE_DIR} or the build folder ${CMAKE_BINARY_DIR} has a space in its path, "
                      "which CANN's makefiles split: move it to a path without spaces.")
endif()
if(NOT IS_DIRECTORY "$ENV{ASCEND_HOME_PATH}")
  message(FATAL_ERROR "ASCEND_HOME_PATH is \"$ENV{ASCEND_HOME_PATH}\", which is no folder: source set_env.sh of a CANN toolkit.")
endif()
if(NOT AVSG_SOC)
  message(FATAL_ERROR "AVSG_SOC names no chip family: allowed are ascend910b (Atlas A2) and ascend910_93 (Atlas A3).")
endif()
foreach(soc ${AVSG_SOC})
  if(NOT soc MATCHES "^(ascend910b|ascend910_93)$")
    message(FATAL_ERROR "AVSG_SOC names ${soc}, allowed are the chip families ascend910b (Atlas A2) and ascend910_93 (Atlas A3).")
  endif()
endforeach()
