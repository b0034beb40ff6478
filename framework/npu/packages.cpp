// SPDX-License-Identifier: Apache-2.0
// Reads the OPP paths and the priorities of their vendors.
#include "packages.h"

#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

namespace sparse_gather {
namespace {

constexpr char kWhiteSpace[] = " \t\r\n";
constexpr char kLibrary[] = "/libcust_opapi.so";

std::string Trimmed(const std::string& text) {
  const size_t first = text.find_first_not_of(kWhiteSpace);
  if (first == std::string::npos) return "";
  return text.substr(first, text.find_last_not_of(kWhiteSpace) - first + 1);
}

// "load_priority=a,b": the vendors that count, the first wins.
std::vector<std::string> VendorsByPriority(const std::string& vendors) {
  std::ifstream file(vendors + "/config.ini");
  for (std::string line; std::getline(file, line);) {
    const size_t equals = line.find('=');
    if (equals != std::string::npos && Trimmed(line.substr(0, equals)) == "load_priority")
      return Fields(line.substr(equals + 1), ',');
  }
  return {};
}

}  // namespace

std::string Environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::vector<std::string> Fields(const std::string& text, char separator) {
  std::vector<std::string> fields;
  std::istringstream stream(text);
  for (std::string field; std::getline(stream, field, separator);) {
    field = Trimmed(field);
    if (!field.empty()) fields.push_back(field);
  }
  return fields;
}

std::vector<std::string> PackageLibraries() {
  std::vector<std::string> paths;
  for (const std::string& vendor : Fields(Environment("ASCEND_CUSTOM_OPP_PATH"), ':'))
    paths.push_back(vendor + "/op_api/lib" + kLibrary);
  const std::string opp = Environment("ASCEND_OPP_PATH");
  if (!opp.empty()) {
    for (const std::string& vendor : VendorsByPriority(opp + "/vendors"))
      paths.push_back(opp + "/vendors/" + vendor + "/op_api/lib" + kLibrary);
  }
  for (const std::string& folder : Fields(Environment("LD_LIBRARY_PATH"), ':')) {
    if (access((folder + kLibrary).c_str(), F_OK) == 0) paths.push_back(folder + kLibrary);
  }
  return paths;
}

}  // namespace sparse_gather
