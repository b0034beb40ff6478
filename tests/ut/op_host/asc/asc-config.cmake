# SPDX-License-Identifier: Apache-2.0
# Stands for a CANN toolkit's find_package(ASC): writes every call of the npu_op_* functions to AVSG_RECORD, a line each,
# and has their side effects that the build needs.
set(CMAKE_CXX_FLAGS_RELEASE "")
set(ASCEND_AUTOGEN_PATH ${CMAKE_BINARY_DIR}/autogen)

function(record)
  string(REPLACE ";" "|" line "${ARGN}")
  file(APPEND ${AVSG_RECORD} "${line}\n")
endfunction()
file(REMOVE ${AVSG_RECORD})
record(find_package ${ASCEND_COMPUTE_UNIT})

foreach(name package package_add kernel_sources kernel_library)
  cmake_language(EVAL CODE "function(npu_op_${name})\n  record(npu_op_${name} \${ARGN})\nendfunction()")
endforeach()

function(npu_op_code_gen)
  record(npu_op_code_gen ${ARGN})
  cmake_parse_arguments(GEN "" "OUT_DIR" "" ${ARGN})
  foreach(file aclnn_avsg.cpp aclnn_avsg_load.cpp aclnn_avsg_match.cpp aclnn_avsg_store.cpp op_proto.cc)
    file(WRITE ${GEN_OUT_DIR}/${file} "")
  endforeach()
endfunction()

function(npu_op_library target)
  record(npu_op_library ${target} ${ARGN})
  list(REMOVE_AT ARGN 0)
  add_library(${target} OBJECT ${ARGN})
endfunction()
