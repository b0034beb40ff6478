/* SPDX-License-Identifier: Apache-2.0
 * What the CPU libraries offer beyond avsg.h: counts of a launch, modelled cycles, core order, instruction
 * set. */
#ifndef AVSG_CPU_H
#define AVSG_CPU_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What one core did. Cycles are modelled, only in the checked library; elsewhere they are 0. */
typedef struct avsg_cpu_core_counts {
  uint64_t vector_instructions;
  uint64_t vector_repeats; /* of 256 bytes */
  uint64_t gathered_words; /* elements read by Gather */
  uint64_t scalar_loads;   /* of UB */
  uint64_t scalar_stores;  /* to UB */
  uint64_t gm_scalars;     /* scalar loads and stores of GM */
  uint64_t dmas;           /* instructions that move between GM and UB */
  uint64_t dma_bytes_in;   /* GM to UB */
  uint64_t dma_bytes_out;  /* UB to GM */
  uint64_t barriers;       /* PipeBarrier, those inside Select included */
  uint64_t flags;          /* SetFlag */
  uint64_t syncs;          /* SyncAll */
  double serial_cycles;    /* sum of all costs */
  double pipe_cycles;      /* end of the last instruction when pipes overlap */
} avsg_cpu_core_counts;

/* 1: later launches count, 0: they do not (the default). */
void avsg_cpu_count(int on);

/* Counts of the last launch of this process into out[0..num_cores-1], zeros past its cores. Returns its
 * number of cores. */
int avsg_cpu_counts(avsg_cpu_core_counts* out, int num_cores);

/* Marks set by a kernel under test (avsg_cpu::Mark): counts of core 0 at mark `id` 0..31 of the last launch.
 */
int avsg_cpu_mark_counts(int id, avsg_cpu_core_counts* out);

/* Seed of the order in which the checked library runs cores; no effect elsewhere. */
void avsg_cpu_shuffle(uint64_t seed);

/* "x86-64-v3", "x86-64-v2", "portable" or "checked". */
const char* avsg_cpu_level(void);

/* Chooses the level by name; 0 when done, 1 when this build or CPU does not have it. For tests; not during a
 * launch. */
int avsg_cpu_set_level(const char* level);

#ifdef __cplusplus
}
#endif

#endif /* AVSG_CPU_H */
