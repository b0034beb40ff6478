// SPDX-License-Identifier: Apache-2.0
// Checked build: order between pipes. A pipe may rely on an instruction of another only after a flag or a
// barrier.
#if AVSG_CPU_CHECKED

#include <algorithm>

#include "checked.h"

namespace avsg_cpu {
namespace {

const char* const kPipeNames[kNumPipes] = {"the scalar unit", "the vector pipe", "MTE2", "MTE3"};

void OrderBlock(CheckedCore& core, const Party& party, uint64_t block, bool write) {
  UbShadow& shadow = core.blocks[block];
  for (int q = 0; q < kNumPipes; ++q) {
    const Pipe other = static_cast<Pipe>(q);
    if (shadow.written[q] != 0 && !Knows(core, party.pipe, other, shadow.written[q])) {
      Report(write ? "write-after-write" : "read-after-write", party, "UB offset", block * kUbBlock,
             write ? "overwrites" : "reads", Since(core, other, shadow.written[q]));
    }
    if (write && other != party.pipe && shadow.read[q] != 0 &&
        !Knows(core, party.pipe, other, shadow.read[q])) {
      Report("write-after-read", party, "UB offset", block * kUbBlock, "overwrites",
             Since(core, other, shadow.read[q]));
    }
  }
  (write ? shadow.written : shadow.read)[party.pipe] = core.Count(party.pipe);
}

}  // namespace

bool Knows(const CheckedCore& core, Pipe by, Pipe of, uint32_t number) {
  if (by == of && (by == kScalar || number == core.Count(by)))
    return true;  // in order, or this very instruction
  return number <= core.known[by].at[of];
}

std::string Since(const CheckedCore& core, Pipe pipe, uint32_t number) {
  const Issued& other = core.issued[pipe][number - 1];
  return Format("%s on %s at %s", other.name, kPipeNames[pipe], Where(other.site).c_str());
}

void Report(const char* rule, const Party& party, const char* where, uint64_t place, const char* verb,
            const std::string& other) {
  Violate(rule, party.name, party.site,
          Format("%s on %s %s %s %llu without a flag or barrier after %s", party.name, kPipeNames[party.pipe],
                 verb, where, static_cast<unsigned long long>(place), other.c_str()));
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
            Format("event %d from %s to %s is set a second time without a wait since %s", id,
                   kPipeNames[from], kPipeNames[to], Where(event.site).c_str()));
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
    Violate(
        "event-deadlock", "WaitFlag", site,
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

}  // namespace AVSG_CPU_LEVEL

}  // namespace avsg_cpu

#endif  // AVSG_CPU_CHECKED
