// SPDX-License-Identifier: Apache-2.0
// Gives every symbol of a kernel a name of its own per instruction-set level, so that the linker never shares
// one.
#ifndef AVSG_CPU_LEVEL_H
#define AVSG_CPU_LEVEL_H

// AVSG_CPU_LEVEL is an identifier: x86_64_v2, x86_64_v3, portable or checked. It comes from the build.
#ifndef AVSG_CPU_LEVEL
#error "define AVSG_CPU_LEVEL, the name of the level this file is compiled for"
#endif

#define AVSG_CPU_PASTE_(a, b) a##_##b
#define AVSG_CPU_PASTE(a, b) AVSG_CPU_PASTE_(a, b)

// The names that kernels define at global scope: their namespace and their entries.
#define sparse_gather AVSG_CPU_PASTE(sparse_gather, AVSG_CPU_LEVEL)
#define sparse_gather AVSG_CPU_PASTE(sparse_gather, AVSG_CPU_LEVEL)
#define avsg AVSG_CPU_PASTE(avsg, AVSG_CPU_LEVEL)
#define avsg_match AVSG_CPU_PASTE(avsg_match, AVSG_CPU_LEVEL)
#define avsg_load AVSG_CPU_PASTE(avsg_load, AVSG_CPU_LEVEL)
#define avsg_store AVSG_CPU_PASTE(avsg_store, AVSG_CPU_LEVEL)

#endif  // AVSG_CPU_LEVEL_H
