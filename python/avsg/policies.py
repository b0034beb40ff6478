# SPDX-License-Identifier: Apache-2.0
"""Buffer policies behind one interface, to compare on a trace: AVSG, the paper's design and what peers do.

A policy serves one request, one step at a time:

    policy = make_policy("lru", num_slots, top_k, num_queries)
    counts = policy.step(topk_tokens, verified_len, seq_len)

seq_len counts the step's own Q queries; query g stands at position seq_len - Q + g and sees tokens up to it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Protocol

import numpy as np

from . import layout, reference

Array = np.ndarray
Step = tuple[Array, int, int]  # topk_tokens int32 [Q, K], verified_len, seq_len


@dataclass(frozen=True)
class Counts:
    """What one step cost.

    valid: selected tokens, padding left out, counted once a query. copies: rows copied from the host. hits:
    valid tokens that needed no copy, so hits + copies = valid. distinct: different tokens among the copies;
    fewer than copies where a policy does not share rows between the queries of a step.
    """

    valid: int
    hits: int
    copies: int
    distinct: int

    @classmethod
    def of(cls, valid: int, copied: Array | list[int]) -> Counts:
        return cls(valid, valid - len(copied), len(copied), len(np.unique(copied)))


class Policy(Protocol):
    """One request's buffer of S slots."""

    def step(self, topk_tokens: Array, verified_len: int, seq_len: int) -> Counts:
        """Makes every valid token of topk_tokens int32 [Q, K] resident and counts what had to be copied."""


def visible_tokens(topk_tokens: Array, g: int, seq_len: int) -> Array:
    """Tokens of query g that are no padding and not past its own position, order kept."""
    query = topk_tokens[g]
    return query[(query >= 0) & (query <= seq_len - len(topk_tokens) + g)]


def union_of(topk_tokens: Array, seq_len: int) -> tuple[int, list[int]]:
    """How many tokens the queries see, and the different ones among them in order of first use."""
    visible = [visible_tokens(topk_tokens, g, seq_len) for g in range(len(topk_tokens))]
    tokens = np.concatenate(visible).tolist()
    return len(tokens), list(dict.fromkeys(tokens))


class Avsg:
    """SPEC.md to the bit, by the numpy reference."""

    def __init__(self, num_slots: int, top_k: int, num_queries: int) -> None:
        sizes = {"num_slots": num_slots, "top_k": top_k, "num_queries": num_queries}
        self._config = SimpleNamespace(num_rows=1, max_life=layout.MAX_LIFE, **sizes)
        self._state = np.zeros((1, layout.state_stride_bytes(num_slots)), dtype=np.uint8)

    def step(self, topk_tokens: Array, verified_len: int, seq_len: int) -> Counts:
        num_queries, top_k = topk_tokens.shape
        shapes = dict.fromkeys(("num_misses", "rows", "verified_lens"), (1,))
        shapes |= dict.fromkeys(("miss_tokens", "miss_slots"), (1, num_queries * top_k))
        shapes |= {"slots": (1, num_queries, top_k), "counters": (1, layout.NUM_COUNTERS)}
        plan = SimpleNamespace(**{name: np.empty(shape, dtype=np.int32) for name, shape in shapes.items()})
        inputs = (np.array([value], dtype=np.int32) for value in (verified_len, seq_len, 1, 0))
        reference.match(self._config, self._state, topk_tokens[None], *inputs, plan)
        copied = plan.miss_tokens[0, : plan.num_misses[0]]
        return Counts.of(int(plan.counters[0, layout.COUNTER_VALID]), copied)


class Paper:
    """The paper's literal design (SPEC.md, "Baseline policy"): lives that fall, as many buckets as slots.

    Per slot token (-1 empty) and life (-1 dead); per bucket slot (-1 empty) and the token's low 16 bits.
    """

    PROBE_ROUNDS = 4
    LIFE = 64

    def __init__(self, num_slots: int) -> None:
        if num_slots < 1 or num_slots & (num_slots - 1):
            raise ValueError(
                f"Policy paper hashes modulo S: num_slots is {num_slots}, it must be a power of two."
            )
        self._num_slots = num_slots
        self._token = np.full(num_slots, -1, dtype=np.int64)
        self._life = np.full(num_slots, -1, dtype=np.int64)
        self._bucket_slot = np.full(num_slots, -1, dtype=np.int64)
        self._bucket_low = np.zeros(num_slots, dtype=np.int64)

    def step(self, topk_tokens: Array, verified_len: int, seq_len: int) -> Counts:
        self._decay(1)
        valid, copied = 0, []
        for query in topk_tokens:
            tokens = query[(query >= 0) & (query < seq_len)].astype(np.int64)
            misses = self._query(tokens)
            valid += len(tokens)
            copied += misses.tolist()
        drafts = self._token >= verified_len
        self._token[drafts] = self._life[drafts] = -1
        return Counts.of(valid, copied)

    def _decay(self, rounds: int) -> None:
        np.maximum(self._life - rounds, -1, out=self._life)

    def _buckets(self, tokens: Array) -> Array:
        """int64 [n, R+1]: the buckets of each token."""
        start = layout.HASH_A * tokens % self._num_slots
        stride = layout.HASH_B * tokens % self._num_slots | 1
        return (start[:, None] + np.arange(self.PROBE_ROUNDS + 1) * stride[:, None]) % self._num_slots

    def _query(self, tokens: Array) -> Array:
        """Probe, reclaim, install and link; returns the missed tokens."""
        slots = self._bucket_slot[self._buckets(tokens)]
        found = (slots >= 0) & (self._token[slots] == tokens[:, None])
        hit = found.any(axis=1)
        first = found[hit].argmax(axis=1)  # the walk ends there
        self._life[slots[hit, first]] = self.LIFE
        misses = tokens[~hit]
        if len(misses):
            enough_dead = np.partition(self._life, len(misses) - 1)[len(misses) - 1]
            self._decay(enough_dead + 1)
            victims = np.flatnonzero(self._life < 0)[: len(misses)]
            self._token[victims], self._life[victims] = misses, self.LIFE
            self._link(misses, victims)
        return misses

    def _link(self, misses: Array, victims: Array) -> None:
        """Each miss takes its first bucket that is empty, stale or leads to a dead slot; the highest wins."""
        buckets = self._buckets(misses)
        slots = self._bucket_slot[buckets]
        stale = (self._token[slots] & 0xFFFF) != self._bucket_low[buckets]
        free = (slots < 0) | (self._token[slots] < 0) | stale | (self._life[slots] < 0)
        linkable = np.flatnonzero(free.any(axis=1))
        targets = buckets[linkable, free[linkable].argmax(axis=1)]
        last = reference.last_of_each(targets)
        self._bucket_slot[targets[last]] = victims[linkable[last]]
        self._bucket_low[targets[last]] = misses[linkable[last]] & 0xFFFF


class Previous:
    """Only the previous step is kept, in K slots for each query whatever num_slots is (GatherSelection).

    A token among the Q + 1 newest positions is never reused, which is what makes rejected drafts harmless.
    """

    def __init__(self) -> None:
        self._held: dict[int, Array] = {}

    def step(self, topk_tokens: Array, verified_len: int, seq_len: int) -> Counts:
        del verified_len
        bound = max(seq_len - len(topk_tokens) - 1, 0)
        valid, copied = 0, []
        for g in range(len(topk_tokens)):
            if seq_len <= 0 or seq_len - len(topk_tokens) + g < 0:
                continue  # the query has no position yet: its buffer stays
            tokens = visible_tokens(topk_tokens, g, seq_len)
            reusable = set(self._held.get(g, tokens[:0]).tolist())
            for token in tokens.tolist():
                if token <= bound and token in reusable:
                    reusable.remove(token)  # the second of two equal tokens is fetched
                else:
                    copied.append(token)
            valid += len(tokens)
            self._held[g] = tokens
        return Counts.of(valid, copied)


class Fifo:
    """Sets of 16 slots, each first in, first out; hits move nothing (GLM-5.2's shared pool).

    All queries of a step see the pool as it was before the step and fetch for themselves. Only tokens older
    than the step's queries may hit or be kept. Set = token modulo num_slots / 16.
    """

    WAYS = 16

    def __init__(self, num_slots: int) -> None:
        self._sets: list[list[int]] = [[-1] * self.WAYS for _ in range(num_slots // self.WAYS)]
        self._heads = [0] * len(self._sets)
        self._held: set[int] = set()

    def step(self, topk_tokens: Array, verified_len: int, seq_len: int) -> Counts:
        del verified_len
        newest = seq_len - len(topk_tokens) - 1  # of what is older than the step
        valid, copied = 0, []
        for g, query in enumerate(topk_tokens):
            before_padding = query[np.cumsum(query < 0) == 0]  # the scan stops at the first negative token
            tokens = before_padding[before_padding <= newest + 1 + g]
            valid += len(tokens)
            copied += [x for x in tokens.tolist() if x > newest or x not in self._held]
        for token in dict.fromkeys(x for x in copied if x <= newest):
            self._install(token)
        return Counts.of(valid, copied)

    def _install(self, token: int) -> None:
        index = token % len(self._sets)
        way = self._heads[index]
        self._heads[index] = (way + 1) % self.WAYS
        self._held.discard(self._sets[index][way])
        self._sets[index][way] = token
        self._held.add(token)


class Lru:
    """Exact least recently used over the union of a step's queries (HiSparse, vllm-ascend).

    Tokens at the step's own positions are dropped first. A step's hits become the newest in the order they
    had, its misses stand right before them.
    """

    def __init__(self, num_slots: int) -> None:
        self._num_slots = num_slots
        self._order: list[int] = []  # oldest first

    def step(self, topk_tokens: Array, verified_len: int, seq_len: int) -> Counts:
        del verified_len
        valid, union = union_of(topk_tokens, seq_len)
        requested = set(union)
        order = [x for x in self._order if x < seq_len - len(topk_tokens)]
        hits = [x for x in order if x in requested]
        rest = [x for x in order if x not in requested]
        held = set(hits)
        misses = [x for x in union if x not in held]
        order = rest + misses + hits
        self._order = order[max(len(order) - self._num_slots, 0) :]
        return Counts.of(valid, misses)


class Belady:
    """The offline optimum over the union of a step's queries: evicts what is needed again last.

    Needs all steps beforehand, and must then be given the same ones in order.
    """

    def __init__(self, num_slots: int, trace: Iterable[Step]) -> None:
        self._num_slots = num_slots
        unions = [union_of(topk_tokens, seq_len)[1] for topk_tokens, _, seq_len in trace]
        self._never = len(unions)
        later: dict[int, int] = {}
        self._uses: list[dict[int, int]] = []  # last step first: token -> the step that needs it next
        for t in range(len(unions) - 1, -1, -1):
            self._uses.append({token: later.get(token, self._never) for token in unions[t]})
            later.update(dict.fromkeys(unions[t], t))
        self._next_use: dict[int, int] = {}  # of the resident tokens

    def step(self, topk_tokens: Array, verified_len: int, seq_len: int) -> Counts:
        del verified_len
        valid, union = union_of(topk_tokens, seq_len)
        if not self._uses or self._uses[-1].keys() != set(union):
            raise ValueError(
                "Policy belady got a step that its trace does not have here: replay it once, in order."
            )
        uses = self._uses.pop()
        misses = [x for x in union if x not in self._next_use]
        rest = sorted((t, x) for x, t in self._next_use.items() if x not in uses)
        self._next_use = {x: t for t, x in rest[: self._num_slots - len(union)]}
        self._next_use.update(uses)
        return Counts.of(valid, misses)


POLICIES = ("avsg", "paper", "lru", "fifo", "previous", "belady")


def make_policy(
    name: str, num_slots: int, top_k: int, num_queries: int, trace: Iterable[Step] | None = None
) -> Policy:
    """An empty policy, one of POLICIES, or ValueError; trace: all steps to come, which only belady needs."""
    if num_queries * top_k > num_slots:
        raise ValueError(
            f"num_queries * top_k is {num_queries * top_k}; a step's tokens must fit num_slots, {num_slots}."
        )
    if name == "avsg":
        return Avsg(num_slots, top_k, num_queries)
    if name == "previous":
        return Previous()
    if name == "belady":
        if trace is None:
            raise ValueError("Policy belady looks ahead: trace is None, it must hold all steps to come.")
        return Belady(num_slots, trace)
    if name not in POLICIES:
        raise ValueError(f"No policy {name!r}; the policies are {', '.join(POLICIES)}.")
    return {"paper": Paper, "fifo": Fifo, "lru": Lru}[name](num_slots)
