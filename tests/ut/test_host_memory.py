# SPDX-License-Identifier: Apache-2.0
"""avsg_host_alloc gives page-aligned zeros, commits them lazily and takes back only what it gave (avsg.h)."""

import ctypes
import mmap
from ctypes import byref, c_void_p
from pathlib import Path

import numpy as np
import pytest

from avsg import _abi


@pytest.fixture(scope="module", params=["cpu", "cpu-checked"])
def library(request):
    return _abi.load(_abi.resolve(request.param))


def allocate(library, num_bytes: int, huge_pages: int = 0) -> int:
    host, alias = c_void_p(), c_void_p()
    library.call(
        "avsg_host_alloc",
        num_bytes,
        byref(_abi.HostOptions(huge_pages=huge_pages)),
        byref(host),
        byref(alias),
    )
    assert host.value == alias.value
    return host.value


def as_array(address: int, num_bytes: int) -> np.ndarray:
    return np.ctypeslib.as_array(ctypes.cast(address, ctypes.POINTER(ctypes.c_uint8)), (num_bytes,))


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * mmap.PAGESIZE


@pytest.mark.parametrize("huge_pages", [0, 1])
@pytest.mark.parametrize("num_bytes", [1, 4096, 4097, (2 << 20) - 1, 5 << 20])
def test_memory_is_page_aligned_zeroed_and_writable(library, num_bytes, huge_pages):
    address = allocate(library, num_bytes, huge_pages)
    assert address % mmap.PAGESIZE == 0
    memory = as_array(address, num_bytes)
    assert not memory.any()
    memory[:] = 0x5A
    library.call("avsg_host_free", address)


def test_huge_pages_are_aligned_to_2_mib(library):
    address = allocate(library, 3 << 20, huge_pages=1)
    assert address % (2 << 20) == 0
    library.call("avsg_host_free", address)


@pytest.mark.parametrize("huge_pages", [0, 1])
def test_memory_beyond_2_to_31_bytes_is_committed_where_it_is_touched(library, huge_pages):
    num_bytes = 1 << 40
    before = resident_bytes()
    address = allocate(library, num_bytes, huge_pages)
    memory = as_array(address, num_bytes)
    for offset in (0, (1 << 31) + 5, num_bytes - 1):
        memory[offset] = 7
    assert [int(memory[offset]) for offset in (0, (1 << 31) + 5, num_bytes - 1)] == [7, 7, 7]
    assert resident_bytes() - before < 64 << 20
    library.call("avsg_host_free", address)


def test_freed_memory_is_unmapped(library):
    address = allocate(library, 64 << 20)
    as_array(address, 64 << 20)[:] = 1
    before = resident_bytes()
    library.call("avsg_host_free", address)
    assert before - resident_bytes() > 60 << 20
    with pytest.raises(ValueError, match="freed already"):
        library.call("avsg_host_free", address)


@pytest.mark.parametrize("huge_pages", [0, 1])
def test_no_address_space_is_lost_over_many_allocations(library, huge_pages):
    def mapped_pages() -> int:
        return int(Path("/proc/self/statm").read_text().split()[0])

    before = mapped_pages()
    for _ in range(50):
        page = allocate(library, 1)  # moves the next mapping off a huge page's boundary
        library.call("avsg_host_free", allocate(library, 5 << 20, huge_pages))
        library.call("avsg_host_free", page)
    assert mapped_pages() - before < (5 << 20) // mmap.PAGESIZE


@pytest.mark.parametrize("offset", [None, 8, 4096])
def test_only_a_start_that_was_given_can_be_freed(library, offset):
    address = allocate(library, 8192)
    with pytest.raises(ValueError, match="avsg_host_alloc of this library did not return"):
        library.call("avsg_host_free", None if offset is None else address + offset)
    as_array(address, 8192)[:] = 3
    library.call("avsg_host_free", address)


@pytest.mark.parametrize(
    "num_bytes, options, missing, sentence",
    [
        (0, {}, None, "bytes is 0"),
        (-1, {}, None, "bytes is -1"),
        (2**63 - 1, {}, None, "bytes is 9223372036854775807"),
        (4096, None, None, "avsg_host_options is NULL"),
        (4096, {"struct_bytes": 4}, None, "struct_bytes of avsg_host_options is 4, this library knows 8"),
        (4096, {"huge_pages": 2}, None, "huge_pages is 2, allowed is 0 to 1"),
        (4096, {}, "host", "host is NULL"),
        (4096, {}, "device_alias", "device_alias is NULL"),
    ],
)
def test_refused_allocation_says_why_and_writes_nothing(library, num_bytes, options, missing, sentence):
    host, alias = c_void_p(1), c_void_p(2)
    given = None if options is None else _abi.HostOptions()
    for field, value in (options or {}).items():
        setattr(given, field, value)
    with pytest.raises(ValueError) as refused:
        library.call(
            "avsg_host_alloc",
            num_bytes,
            given if given is None else byref(given),
            None if missing == "host" else byref(host),
            None if missing == "device_alias" else byref(alias),
        )
    assert sentence in str(refused.value)
    assert (host.value, alias.value) == (1, 2)


@pytest.mark.parametrize("huge_pages", [0, 1])
def test_more_than_the_address_space_is_out_of_memory(library, huge_pages):
    host, alias = c_void_p(1), c_void_p(2)
    with pytest.raises(MemoryError, match="refuses to map 4611686018427387904 bytes"):
        library.call(
            "avsg_host_alloc",
            1 << 62,
            byref(_abi.HostOptions(huge_pages=huge_pages)),
            byref(host),
            byref(alias),
        )
    assert (host.value, alias.value) == (1, 2)
