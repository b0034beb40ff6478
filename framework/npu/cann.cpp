// SPDX-License-Identifier: Apache-2.0
// Finds CANN's libraries and the operator package, and the symbols in them.
#include "cann.h"

#include <dlfcn.h>
#include <unistd.h>

#include <vector>

#include "packages.h"

namespace sparse_gather {
namespace {

struct Symbol {
  const char* name;
  void** target;
  bool needed;
};

template <typename Function>
Symbol Needed(const char* name, Function* target) {
  return {name, reinterpret_cast<void**>(target), true};
}

template <typename Function>
Symbol Optional(const char* name, Function* target) {
  return {name, reinterpret_cast<void**>(target), false};
}

std::vector<Symbol> Symbols(AclApi* acl) {
  return {Needed("aclCreateTensor", &acl->create_tensor),
          Needed("aclCreateTensorList", &acl->create_tensor_list),
          Needed("aclDestroyTensor", &acl->destroy_tensor),
          Needed("aclDestroyTensorList", &acl->destroy_tensor_list),
          Needed("aclSetAclOpExecutorRepeatable", &acl->set_repeatable),
          Needed("aclDestroyAclOpExecutor", &acl->destroy_executor),
          Needed("aclrtGetDevice", &acl->get_device),
          Needed("aclrtGetSocName", &acl->soc_name),
          Needed("aclrtMallocHost", &acl->malloc_host),
          Needed("aclrtFreeHost", &acl->free_host),
          Optional("aclrtHostRegister", &acl->host_register),
          Optional("aclrtHostUnregister", &acl->host_unregister),
          Optional("aclGetDeviceCapability", &acl->device_capability),
          Optional("aclGetRecentErrMsg", &acl->recent_error)};
}

std::vector<Symbol> Symbols(AvsgApi* avsg) {
  return {Needed("aclnnAvsgMatchGetWorkspaceSize", &avsg->match_size),
          Needed("aclnnAvsgLoadGetWorkspaceSize", &avsg->load_size),
          Needed("aclnnAvsgStoreGetWorkspaceSize", &avsg->store_size),
          Needed("aclnnAvsgGetWorkspaceSize", &avsg->fused_size),
          Needed("aclnnAvsgMatch", &avsg->match),
          Needed("aclnnAvsgLoad", &avsg->load),
          Needed("aclnnAvsgStore", &avsg->store),
          Needed("aclnnAvsg", &avsg->fused)};
}

// "" or the name of the first needed symbol that no library has.
std::string Resolve(const std::vector<void*>& libraries, const std::vector<Symbol>& symbols) {
  for (const Symbol& symbol : symbols) {
    *symbol.target = nullptr;
    for (void* library : libraries) {
      if (*symbol.target == nullptr) *symbol.target = dlsym(library, symbol.name);
    }
    if (*symbol.target == nullptr && symbol.needed) return symbol.name;
  }
  return "";
}

// By name first: that is the copy which a framework in this process has loaded.
void* OpenToolkitLibrary(const std::string& name) {
  void* library = dlopen(name.c_str(), RTLD_NOW);
  const std::string home = Environment("ASCEND_HOME_PATH");
  if (library == nullptr && !home.empty()) library = dlopen((home + "/lib64/" + name).c_str(), RTLD_NOW);
  return library;
}

std::string LoadToolkit(AclApi* acl) {
  std::vector<void*> libraries;
  for (const char* name : {"libascendcl.so", "libnnopbase.so"}) {
    void* library = OpenToolkitLibrary(name);
    if (library == nullptr) {
      const char* reason = dlerror();
      return "CANN was not found (" + std::string(reason == nullptr ? name : reason) +
             "); source the set_env.sh of a CANN toolkit before this process starts, or use the CPU library.";
    }
    libraries.push_back(library);
  }
  const std::string missing = Resolve(libraries, Symbols(acl));
  if (missing.empty()) return "";
  return "This CANN has no function " + missing +
         "; install CANN 8.3.RC1 or later and source its set_env.sh.";
}

// "" or why this file does not provide the operators.
std::string TryPackage(const std::string& path, AvsgApi* avsg) {
  if (access(path.c_str(), F_OK) != 0) return path + " does not exist";
  void* library = dlopen(path.c_str(), RTLD_NOW);
  if (library == nullptr) {
    const char* reason = dlerror();
    return reason == nullptr ? path + " does not load" : reason;
  }
  const std::string missing = Resolve({library}, Symbols(avsg));
  if (missing.empty()) return "";
  dlclose(library);
  return path + " has no " + missing;
}

std::string LoadPackage(AvsgApi* avsg) {
  std::string reasons;
  for (const std::string& path : PackageLibraries()) {
    const std::string reason = TryPackage(path, avsg);
    if (reason.empty()) return "";
    reasons += (reasons.empty() ? "" : "; ") + reason;
  }
  if (reasons.empty()) reasons = "neither ASCEND_CUSTOM_OPP_PATH nor ASCEND_OPP_PATH names a vendor";
  return "No operator package with the operators of AVSG was found (" + reasons +
         "); install the .run of AVSG for this CANN and source its set_env.bash before this process starts.";
}

}  // namespace

std::string LoadCann(Cann* cann) {
  const std::string error = LoadToolkit(&cann->acl);
  return error.empty() ? LoadPackage(&cann->avsg) : error;
}

}  // namespace sparse_gather
