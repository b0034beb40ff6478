// SPDX-License-Identifier: Apache-2.0
// What to do about each code that users of operator packages meet.
#include "acl_error.h"

#include <algorithm>
#include <string>

#include "last_error.h"

namespace sparse_gather {
namespace {

struct Remedy {
  int32_t acl_code;
  int code;  // of avsg.h
  const char* advice;
};

constexpr char kSamePackage[] = "install a package and a library of the same AVSG version";
constexpr char kKernels[] =
    "the package has no kernel for this chip or was found too late; run `avsg doctor`, build for this chip "
    "and "
    "source set_env.bash before this process starts";
constexpr char kTiling[] =
    "AVSG's own sentence is in the log of CANN ($HOME/ascend/log); install a package and a library of the "
    "same version";
constexpr char kChipFailed[] =
    "nothing more runs on this device in this process: end it, and read the log of CANN ($HOME/ascend/log)";
constexpr char kUnknown[] = "the log of CANN ($HOME/ascend/log) says more";
constexpr Remedy kRemedies[] = {
    {100001, AVSG_UNSUPPORTED, "call aclInit once in this process first"},
    {107002, AVSG_UNSUPPORTED, "call aclrtSetDevice in this thread first"},
    {107003, AVSG_INVALID_ARGUMENT, "pass a stream of the device that is set in this thread"},
    {161001, AVSG_UNSUPPORTED, kSamePackage},
    {161002, AVSG_UNSUPPORTED, kSamePackage},
    {200000, AVSG_OUT_OF_MEMORY, "free host memory and call again"},
    {207001, AVSG_OUT_OF_MEMORY, "free memory or ask for less"},
    {207004, AVSG_UNSUPPORTED, "check the driver and the devices with `npu-smi info`"},
    {207018, AVSG_OUT_OF_MEMORY, "free device memory and call again"},
    {561001, AVSG_UNSUPPORTED, kSamePackage},
    {561002, AVSG_UNSUPPORTED, kTiling},
    {561003, AVSG_UNSUPPORTED, kKernels},
    {561103, AVSG_UNSUPPORTED, kKernels},
    {561107, AVSG_UNSUPPORTED, "source the set_env.sh of the CANN toolkit before this process starts"},
    {561112, AVSG_UNSUPPORTED, kKernels},
};
constexpr int32_t kChipCodes = 507;  // thousands of the codes for exceptions and timeouts of the chip
constexpr size_t kMaxWords = 240;    // bytes of CANN's text in a sentence; its log has all of it

// CANN's message on one line, without the full stop.
std::string RecentError(const AclApi& acl) {
  const char* text = acl.recent_error == nullptr ? nullptr : acl.recent_error();
  std::string line;
  for (const char* c = text == nullptr ? "" : text; *c != '\0'; ++c) {
    const bool space = static_cast<unsigned char>(*c) <= ' ';
    if (!space) line += *c;
    if (space && !line.empty() && line.back() != ' ') line += ' ';
  }
  if (line.size() > kMaxWords) {
    size_t end = kMaxWords;
    while (end > 0 && (static_cast<unsigned char>(line[end]) & 0xC0) == 0x80) --end;  // not inside a letter
    line = line.substr(0, end) + "...";
  } else {
    while (!line.empty() && (line.back() == ' ' || line.back() == '.')) line.pop_back();
  }
  return line;
}

}  // namespace

int FailAcl(const AclApi& acl, const char* function, int32_t code) {
  const bool chip_failed = code / 1000 == kChipCodes;
  const Remedy other = {code, AVSG_INTERNAL, chip_failed ? kChipFailed : kUnknown};
  const Remedy* remedy = std::find_if(std::begin(kRemedies), std::end(kRemedies),
                                      [code](const Remedy& r) { return r.acl_code == code; });
  if (remedy == std::end(kRemedies)) remedy = &other;
  const std::string words = RecentError(acl);
  return Fail(remedy->code, std::string(function) + " failed with " + std::to_string(code) +
                                (words.empty() ? "" : " (" + words + ")") + "; " + remedy->advice + ".");
}

}  // namespace sparse_gather
