// SPDX-License-Identifier: Apache-2.0
// Checked build: order between pipes and cores. A pipe may rely on an instruction of another only after a flag or a
// barrier; cores may rely on each other only after SyncAll; the scalar unit's cache does not see or show device memory.
#if AVSG_CPU_CHECKED

#include <algorithm>
#include <unordered_map>

#include "checked.h"

namespace avsg_cpu {
namespace {

const char* const kPipeNames[kNumPipes] = {"the scalar unit", "the vector pipe", "MTE2", "MTE3"};

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

// What pipe `of` has done that pipe `by` may rely on.
bool Knows(const CheckedCore& core, Pipe by, Pipe of, uint32_t number) {
  if (by == of && (by == kScalar || number == core.Count(by))) return true;  // in order, or this very instruction
  return number <= core.known[by].at[of];
}

struct Party {
  Pipe pipe;
  const char* name;
  Site site;
};

std::string Since(const CheckedCore& core, Pipe pipe, uint32_t number) {
  const Issued& other = core.issued[pipe][number - 1];
  return Format("%s on %s at %s", other.name, kPipeNames[pipe], Where(other.site).c_str());
}

[[noreturn]] void Report(const char* rule, const Party& party, const char* where, uint64_t place, const char* verb,
                         const std::string& other) {
  Violate(rule, party.name, party.site,
          Format("%s on %s %s %s %llu without a flag or barrier after %s", party.name, kPipeNames[party.pipe], verb,
                 where, static_cast<unsigned long long>(place), other.c_str()));
}

void OrderBlock(CheckedCore& core, const Party& party, uint64_t block, bool write) {
  UbShadow& shadow = core.blocks[block];
  for (int q = 0; q < kNumPipes; ++q) {
    const Pipe other = static_cast<Pipe>(q);
    if (shadow.written[q] != 0 && !Knows(core, party.pipe, other, shadow.written[q])) {
      Report(write ? "write-after-write" : "read-after-write", party, "UB offset", block * kUbBlock,
             write ? "overwrites" : "reads", Since(core, other, shadow.written[q]));
    }
    if (write && other != party.pipe && shadow.read[q] != 0 && !Knows(core, party.pipe, other, shadow.read[q])) {
      Report("write-after-read", party, "UB offset", block * kUbBlock, "overwrites",
             Since(core, other, shadow.read[q]));
    }
  }
  (write ? shadow.written : shadow.read)[party.pipe] = core.Count(party.pipe);
}

void CheckOrder(const Party& party, uint64_t line, const Access& past, bool write) {
  const CheckedCore& core = Self();
  const char* verb = write ? "overwrites" : "reads";
  const unsigned long long address = line * kLine;
  if (past.core != core.index) {
    if (past.epoch >= core.epoch) {
      Violate("cross-core", party.name, party.site,
              Format("%s %s device memory at %#llx that core %d %s in the same phase, without SyncAll between",
                     party.name, verb, address, past.core, past.write ? "writes" : "reads"));
    }
  } else if (past.write || past.pipe != party.pipe) {
    const Pipe other = static_cast<Pipe>(past.pipe);
    if (!Knows(core, party.pipe, other, past.number)) {
      Report(!past.write ? "write-after-read" : write ? "write-after-write" : "read-after-write", party,
             "device memory at", address, verb, Since(core, other, past.number));
    }
  }
  if (past.in_cache && (past.core != core.index || party.pipe != kScalar)) {
    Violate("scalar-cache", party.name, party.site,
            Format("%s %s device memory at %#llx that the scalar unit of core %d wrote and never cleaned from its cache "
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
  shadow.accesses.push_back(Access{first, core.Count(party.pipe), core.epoch, bytes, static_cast<int16_t>(core.index),
                                   static_cast<uint8_t>(party.pipe), write, write && party.pipe == kScalar});
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

void StartHazards() {
  DeviceShadow& shadow = Shadow();
  shadow.index.clear();
  shadow.pages.clear();
  shadow.accesses.assign(1, Access{});
  for (auto& cached : shadow.cached) cached.clear();
  shadow.version = 1;
  shadow.last_page = ~uint64_t{0};
}

uint32_t IssueTo(Pipe pipe, const char* name, Site site) {
  CheckedCore& core = Self();
  core.issued[pipe].push_back(Issued{name, site});
  // The scalar unit issues after what it has waited for; its own stores need a flag to be seen.
  for (int q = kVector; q < kNumPipes; ++q) {
    core.known[pipe].at[q] = std::max(core.known[pipe].at[q], core.known[kScalar].at[q]);
  }
  return core.Count(pipe);
}

void OrderUb(Pipe pipe, const char* name, Site site, uint64_t offset, uint64_t bytes, bool write) {
  const Party party = {pipe, name, site};
  for (uint64_t block = offset / kUbBlock; block <= (offset + bytes - 1) / kUbBlock; ++block) {
    OrderBlock(Self(), party, block, write);
  }
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

void CheckPending(const CheckedCore& core) {
  for (int from = 0; from < kNumPipes; ++from) {
    for (int to = 0; to < kNumPipes; ++to) {
      for (int id = 0; id < 8; ++id) {
        const Event& event = core.events[from][to][id];
        if (event.set) {
          Violate("event-pairing", "SetFlag", event.site,
                  Format("event %d from %s to %s is still set when the kernel ends", id, kPipeNames[from],
                         kPipeNames[to]));
        }
      }
    }
  }
}

inline namespace AVSG_CPU_LEVEL {
namespace {

Event& EventOf(Pipe from, Pipe to, int id, const char* name, Site site) {
  if (id < 0 || id > 7) Violate("event-ids", name, site, Format("event %d, allowed are 0..7", id));
  return Self().events[from][to][id];
}

}  // namespace

void SetEvent(Pipe from, Pipe to, int id, Site site) {
  CheckedCore& core = Self();
  Event& event = EventOf(from, to, id, "SetFlag", site);
  if (event.set) {
    Violate("event-pairing", "SetFlag", site,
            Format("event %d from %s to %s is set a second time without a wait since %s", id, kPipeNames[from],
                   kPipeNames[to], Where(event.site).c_str()));
  }
  for (int q = kVector; q < kNumPipes; ++q) {
    core.known[from].at[q] = std::max(core.known[from].at[q], core.known[kScalar].at[q]);
  }
  event = Event{true, core.known[from], EventTime(from), site};
  event.known.at[from] = core.Count(from);
  ++core.counts.flags;
}

void WaitEvent(Pipe from, Pipe to, int id, Site site) {
  CheckedCore& core = Self();
  Event& event = EventOf(from, to, id, "WaitFlag", site);
  if (!event.set) {
    Violate("event-deadlock", "WaitFlag", site,
            Format("%s waits for ever: event %d from %s was never set", kPipeNames[to], id, kPipeNames[from]));
  }
  event.set = false;
  for (int q = 0; q < kNumPipes; ++q) {
    core.known[to].at[q] = std::max(core.known[to].at[q], event.known.at[q]);
  }
  WaitUntil(to, event.time);
}

void Barrier(Pipe pipe, bool all, Site) {
  CheckedCore& core = Self();
  ++core.counts.barriers;
  SpendBarrier(pipe, all);
  for (int p = 0; p < kNumPipes; ++p) {
    if (!all && p != pipe) continue;
    for (int q = 0; q < kNumPipes; ++q) {
      if (all || q == p) core.known[p].at[q] = core.Count(static_cast<Pipe>(q));
    }
  }
}

void Synchronize(Site site) {
  Barrier(kVector, true, site);
  --Self().counts.barriers;
  ++Self().counts.syncs;
  WaitForCores(site);
}

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
