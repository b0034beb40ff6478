// SPDX-License-Identifier: Apache-2.0
// Checked build: order of accesses to device memory, between the pipes of a core, between cores, and behind
// the scalar unit's cache, which neither sees nor shows what others do until it is cleaned.
#if AVSG_CPU_CHECKED

#include <algorithm>
#include <unordered_map>

#include "checked.h"

namespace avsg_cpu {
namespace {

// One access to a 32-byte line of device memory, with a bit for each byte.
struct Access {
  uint32_t next;  // index in the arena, 0 ends the list
  uint32_t number;
  uint32_t epoch;
  uint32_t bytes;
  int16_t core;
  uint8_t pipe;
  bool write;
  bool in_cache;  // written by the scalar unit and not cleaned since
};

constexpr uint64_t kLine = 32;
constexpr uint64_t kLinesPerPage = 128;
constexpr uint64_t kCacheLine = 64;

struct Page {
  uint32_t heads[kLinesPerPage];
  uint32_t versions[kLinesPerPage];  // of the last write that was not made by the owner's scalar unit
};

struct DeviceShadow {
  std::unordered_map<uint64_t, uint32_t> index;  // page number to place
  std::vector<Page> pages;
  std::vector<Access> accesses;
  std::unordered_map<uint64_t, uint32_t> cached[kMaxCores];  // 64-byte line to the version it was read at
  uint32_t version;
  uint64_t last_page;
  uint32_t last_place;
};

DeviceShadow& Shadow() {
  static DeviceShadow shadow;
  return shadow;
}

Page& PageOf(uint64_t line) {
  DeviceShadow& shadow = Shadow();
  const uint64_t number = line / kLinesPerPage;
  if (number != shadow.last_page) {
    const auto found = shadow.index.emplace(number, static_cast<uint32_t>(shadow.pages.size()));
    if (found.second) shadow.pages.push_back(Page{});
    shadow.last_page = number;
    shadow.last_place = found.first->second;
  }
  return shadow.pages[shadow.last_place];
}

void CheckOrder(const Party& party, uint64_t line, const Access& past, bool write) {
  const CheckedCore& core = Self();
  const char* verb = write ? "overwrites" : "reads";
  const unsigned long long address = line * kLine;
  if (past.core != core.index) {
    if (past.epoch >= core.epoch) {
      Violate(
          "cross-core", party.name, party.site,
          Format("%s %s device memory at %#llx that core %d %s in the same phase, without SyncAll between",
                 party.name, verb, address, past.core, past.write ? "writes" : "reads"));
    }
  } else if (past.write || past.pipe != party.pipe) {
    const Pipe other = static_cast<Pipe>(past.pipe);
    if (!Knows(core, party.pipe, other, past.number)) {
      Report(!past.write ? "write-after-read"
             : write     ? "write-after-write"
                         : "read-after-write",
             party, "device memory at", address, verb, Since(core, other, past.number));
    }
  }
  if (past.in_cache && (past.core != core.index || party.pipe != kScalar)) {
    Violate("scalar-cache", party.name, party.site,
            Format("%s %s device memory at %#llx that the scalar unit of core %d wrote and never cleaned "
                   "from its cache "
                   "(DataCacheCleanAndInvalid)",
                   party.name, verb, address, past.core));
  }
}

// Removes from the line's list what an access that covers `bytes` makes obsolete.
void DropCovered(uint32_t* link, uint32_t bytes, const CheckedCore& core, Pipe pipe, bool write) {
  std::vector<Access>& arena = Shadow().accesses;
  while (*link != 0) {
    Access& past = arena[*link];
    const bool same = past.core == core.index && past.pipe == pipe && past.write == write;
    if (write || same) past.bytes &= ~bytes;
    if (past.bytes == 0) {
      *link = past.next;
    } else {
      link = &past.next;
    }
  }
}

void OrderLine(const Party& party, uint64_t line, uint32_t bytes, GmAccess access) {
  const bool write = access != kRead;
  CheckedCore& core = Self();
  DeviceShadow& shadow = Shadow();
  Page& page = PageOf(line);
  uint32_t* head = &page.heads[line % kLinesPerPage];
  for (uint32_t i = *head; i != 0; i = shadow.accesses[i].next) {
    const Access& past = shadow.accesses[i];
    if ((past.bytes & bytes) == 0 || !(write || past.write)) continue;
    if (access == kSameBytes && past.write && past.core != core.index) continue;
    CheckOrder(party, line, past, write);
  }
  DropCovered(head, bytes, core, party.pipe, write);
  const uint32_t first = *head;
  *head = static_cast<uint32_t>(shadow.accesses.size());
  shadow.accesses.push_back(Access{first, core.Count(party.pipe), core.epoch, bytes,
                                   static_cast<int16_t>(core.index), static_cast<uint8_t>(party.pipe), write,
                                   write && party.pipe == kScalar});
  if (write) page.versions[line % kLinesPerPage] = ++shadow.version;
}

// The cache keeps a line until it is cleaned: a scalar read may be older than what others have written since.
void OrderCache(const Party& party, uint64_t address, bool write) {
  DeviceShadow& shadow = Shadow();
  auto& cached = shadow.cached[Self().index];
  const uint64_t line = address / kCacheLine;
  const auto found = cached.emplace(line, shadow.version);
  if (write) {
    found.first->second = shadow.version + 1;  // the number that its own write is about to get
    return;
  }
  if (found.second) return;
  for (uint64_t half = line * 2; half < line * 2 + 2; ++half) {
    if (PageOf(half).versions[half % kLinesPerPage] > found.first->second) {
      Violate("scalar-cache", party.name, party.site,
              Format("%s reads device memory at %#llx from a cache line older than the last write "
                     "(DataCacheCleanAndInvalid)",
                     party.name, static_cast<unsigned long long>(address)));
    }
  }
}

}  // namespace

void StartDeviceOrder() {
  DeviceShadow& shadow = Shadow();
  shadow.index.clear();
  shadow.pages.clear();
  shadow.accesses.assign(1, Access{});
  for (auto& cached : shadow.cached) cached.clear();
  shadow.version = 1;
  shadow.last_page = ~uint64_t{0};
}

void OrderGm(Pipe pipe, const char* name, Site site, uint64_t address, uint64_t bytes, GmAccess access) {
  const bool write = access != kRead;
  const Party party = {pipe, name, site};
  if (pipe == kScalar) OrderCache(party, address, write);
  for (uint64_t at = address; at < address + bytes;) {
    const uint64_t line = at / kLine;
    const uint64_t first = at % kLine;
    const uint64_t last = std::min(address + bytes - line * kLine, kLine);
    const uint32_t mask = static_cast<uint32_t>(((uint64_t{1} << last) - 1) & ~((uint64_t{1} << first) - 1));
    OrderLine(party, line, mask, access);
    at = line * kLine + last;
  }
}

inline namespace AVSG_CPU_LEVEL {

void CleanCache(const void* address, uint64_t bytes, Site) {
  DeviceShadow& shadow = Shadow();
  CheckedCore& core = Self();
  SpendScalar(kGmScalarCycles);
  const uint64_t first = reinterpret_cast<uint64_t>(address) / kCacheLine;
  const uint64_t last = (reinterpret_cast<uint64_t>(address) + bytes - 1) / kCacheLine;
  auto& cached = shadow.cached[core.index];
  for (auto entry = cached.begin(); entry != cached.end();) {
    if (address != nullptr && (entry->first < first || entry->first > last)) {
      ++entry;
      continue;
    }
    for (uint64_t line = entry->first * 2; line < entry->first * 2 + 2; ++line) {
      for (uint32_t i = PageOf(line).heads[line % kLinesPerPage]; i != 0; i = shadow.accesses[i].next) {
        if (shadow.accesses[i].core == core.index) shadow.accesses[i].in_cache = false;
      }
    }
    entry = cached.erase(entry);
  }
}

}  // namespace AVSG_CPU_LEVEL
}  // namespace avsg_cpu

#endif  // AVSG_CPU_CHECKED
