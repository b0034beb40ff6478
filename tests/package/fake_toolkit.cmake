# SPDX-License-Identifier: Apache-2.0
# Stands for find_package(ASC) of a toolkit with npu_op_package: records the calls, and builds and installs a small tree.
set(AVSG_RECORD ${CMAKE_BINARY_DIR}/calls)
include(${CMAKE_CURRENT_LIST_DIR}/recording.cmake)
file(WRITE ${CMAKE_BINARY_DIR}/empty.cpp "")

function(npu_op_library target) # the real sources need CANN's headers
  record(npu_op_library ${target} ${ARGN})
  add_library(${target} OBJECT ${CMAKE_BINARY_DIR}/empty.cpp)
endfunction()

set(TREE ${CMAKE_BINARY_DIR}/tree)
file(MAKE_DIRECTORY ${TREE}/op_api/lib ${TREE}/op_api/include ${TREE}/op_impl/ai_core/tbe/op_tiling/lib)
file(WRITE ${TREE}/version.info "custom_opp_compiler_version=8.5.0\n")
foreach(name avsg avsg_match avsg_load avsg_store)
  file(WRITE ${TREE}/op_api/include/aclnn_${name}.h "")
endforeach()
file(WRITE ${TREE}/op_api/lib/libcust_opapi.so "opapi")
file(WRITE ${TREE}/op_impl/ai_core/tbe/op_tiling/lib/libcust_opmaster_rt2.0.so "tiling")
file(CREATE_LINK lib/libcust_opmaster_rt2.0.so ${TREE}/op_impl/ai_core/tbe/op_tiling/liboptiling.so SYMBOLIC)
# Installed only if the target binary was built first, as kernels are.
add_custom_target(binary COMMAND ${CMAKE_COMMAND} -E make_directory ${TREE}/op_impl/ai_core/tbe/kernel
                  COMMAND $(MAKE) --version)
foreach(soc ${ASCEND_COMPUTE_UNIT})
  add_custom_command(TARGET binary POST_BUILD COMMAND ${CMAKE_COMMAND} -E touch ${TREE}/op_impl/ai_core/tbe/kernel/${soc}.o)
endforeach()
install(DIRECTORY ${TREE}/ DESTINATION packages/vendors/avsg)
install(CODE "file(WRITE \${CMAKE_INSTALL_PREFIX}/install.sh \"the toolkit's own\")")
