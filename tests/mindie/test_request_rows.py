# SPDX-License-Identifier: Apache-2.0
"""RequestRows: leases by sequence and admission: arrival, preemption, fork, warm-up (SPEC.md "Leases")."""

from __future__ import annotations

import numpy as np
import pytest

import avsg
from avsg import row_table
from avsg.mindie.request_rows import DUMMY_SEQUENCE, NoFreeRow, RequestRows


def leases_of(rows: RequestRows, *sequences: object) -> list[int]:
    return rows.lookup(sequences)[1].tolist()


def test_lookup_gives_rows_and_leases_in_the_order_of_the_step() -> None:
    rows = RequestRows(4)
    first, second = rows.admit(11), rows.admit(22)
    got_rows, got_leases = rows.lookup([22, 11])
    assert got_rows.tolist() == [second.row, first.row] and got_leases.tolist() == [second.lease, first.lease]
    assert got_rows.dtype == got_leases.dtype == np.int32


def test_dummy_entries_and_padding_are_inactive() -> None:
    rows = RequestRows(4)
    owned = rows.admit(7)
    got_rows, got_leases = rows.lookup([DUMMY_SEQUENCE, 7, None], size=6)
    assert got_rows.tolist() == [-1, owned.row, -1, -1, -1, -1]
    assert got_leases.tolist() == [0, owned.lease, 0, 0, 0, 0]
    with pytest.raises(ValueError, match="dummy"):
        rows.admit(DUMMY_SEQUENCE)
    with pytest.raises(ValueError, match="hold 1"):
        rows.lookup([7, None], size=1)


def test_numpy_and_python_ids_name_the_same_sequence() -> None:
    rows = RequestRows(2)
    rows.admit(np.int64(5))
    assert 5 in rows and leases_of(rows, 5) == leases_of(rows, np.int64(5))
    assert rows.finish(np.array([5])) == 1 and len(rows) == 0


@pytest.mark.parametrize("leave", ["finish", "preempt", "abort"])
def test_a_sequence_that_comes_back_gets_another_lease_in_the_same_row(leave: str) -> None:
    rows = RequestRows(1)
    before = rows.admit("a")
    assert getattr(rows, leave)(["a"]) == 1
    with pytest.raises(KeyError, match="owns no row"):
        rows.lookup(["a"])
    after = rows.resume("a")
    assert after.row == before.row and after.lease > before.lease


def test_a_released_row_never_carries_its_old_lease_to_the_next_owner() -> None:
    rows, seen = RequestRows(1), set()
    for sequence in range(50):
        seen.add(rows.admit(sequence).lease)
        rows.abort([sequence])
    assert len(seen) == 50


def test_sequences_without_a_row_are_passed_over_on_release() -> None:
    rows = RequestRows(2)
    rows.admit(1)
    assert rows.finish([1, 2, 3, 1]) == 1 and len(rows) == 0


def test_recompute_renews_and_resume_admits() -> None:
    rows = RequestRows(2)
    first = rows.admit(1)
    again = rows.recompute(1)
    assert again.row == first.row and again.lease > first.lease and leases_of(rows, 1) == [again.lease]
    assert rows.resume(2).lease > again.lease


def test_a_fork_gets_its_own_row_and_the_parent_keeps_its_lease() -> None:
    rows = RequestRows(2)
    parent = rows.admit(1)
    child = rows.fork(1, 2)
    assert child.row != parent.row and child.lease != parent.lease and leases_of(rows, 1) == [parent.lease]
    with pytest.raises(KeyError, match="owns no row"):
        rows.fork(9, 10)
    with pytest.raises(NoFreeRow):
        rows.fork(1, 3)


def test_find_gives_what_a_sequence_owns_now() -> None:
    rows = RequestRows(2)
    first = rows.admit(np.int64(1))
    assert rows.find(1) == first and rows.find(2) is rows.find(None) is rows.find(DUMMY_SEQUENCE) is None
    assert rows.recompute(1) == rows.find(1) != first


def test_renew_all_changes_every_lease_and_no_row() -> None:
    rows = RequestRows(3)
    before = [rows.admit(i) for i in range(3)]
    rows.renew_all()
    got_rows, got_leases = rows.lookup(range(3))
    assert got_rows.tolist() == [owned.row for owned in before]
    assert not set(got_leases.tolist()) & {owned.lease for owned in before}


def test_without_a_free_row_the_request_waits_until_one_is_released() -> None:
    rows = RequestRows(1)
    first = rows.admit("running")
    with pytest.raises(NoFreeRow, match="queue it"):
        rows.admit("waiting")
    assert "waiting" not in rows and leases_of(rows, "running") == [first.lease]
    rows.finish(["running"])
    assert rows.admit("waiting").lease > first.lease
    assert issubclass(NoFreeRow, avsg.RowTableFull)


def test_a_step_takes_the_row_of_the_longest_absent_owner() -> None:
    rows = RequestRows(3)
    assert rows.admit_step([1, 2, DUMMY_SEQUENCE, None]) == rows.admit_step([3]) == rows.admit_step([1]) == 0
    kept = leases_of(rows, 1, 3)
    assert rows.admit_step([4]) == 1
    assert 2 not in rows and leases_of(rows, 1, 3) == kept
    assert rows.admit_step([1, 2]) == 1 and 3 not in rows and leases_of(rows, 1) == kept[:1]
    assert len(set(rows.lookup([1, 2, 4])[0].tolist())) == 3


def test_an_owner_that_lost_its_row_comes_back_under_a_new_lease() -> None:
    rows = RequestRows(1)
    rows.admit_step([1])
    (before,) = leases_of(rows, 1)
    rows.admit_step([2])
    rows.admit_step([1])
    assert leases_of(rows, 1)[0] > before


def test_a_step_with_more_sequences_than_rows_changes_nothing() -> None:
    rows = RequestRows(2)
    rows.admit_step([1, 2])
    before = leases_of(rows, 1, 2)
    with pytest.raises(NoFreeRow, match="3 sequences"):
        rows.admit_step([1, 2, 3])
    assert leases_of(rows, 1, 2) == before and len(rows) == 2


def test_one_sequence_twice_in_a_step_is_refused() -> None:
    rows = RequestRows(2)
    rows.admit(1)
    with pytest.raises(ValueError, match="twice"):
        rows.lookup([1, 1])


def test_leases_that_run_out_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_table, "_MAX_LEASE", 2)
    rows = RequestRows(1)
    rows.admit(1)
    rows.renew_all()
    with pytest.raises(OverflowError, match="new RowTable"):
        rows.renew_all()
