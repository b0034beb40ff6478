// SPDX-License-Identifier: Apache-2.0
// Reads the OPP paths and the priorities of their vendors.
#include "packages.h"

#include <cstdlib>
#include <fstream>
#include <sstream>

namespace sparse_gather {
namespace {

constexpr char kWhiteSpace[] = " \t\r\n";

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
  const std::string library = "/op_api/lib/libcust_opapi.so";
  std::vector<std::string> paths;
  for (const std::string& vendor : Fields(Environment("ASCEND_CUSTOM_OPP_PATH"), ':'))
    paths.push_back(vendor + library);
  const std::string opp = Environment("ASCEND_OPP_PATH");
  if (opp.empty()) return paths;
  const std::string vendors = opp + "/vendors";
  for (const std::string& vendor : VendorsByPriority(vendors))
    paths.push_back(vendors + "/" + vendor + library);
  return paths;
}

}  // namespace sparse_gather
