# SPDX-License-Identifier: Apache-2.0
"""RowTable: a row has one owner, a lease is given once (SPEC.md "Leases")."""

import threading

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

import avsg

MAX_LEASE = 2**31 - 1


class RowTableLaws(RuleBasedStateMachine):
    """Any history of calls on a table of three rows."""

    def __init__(self):
        super().__init__()
        self.table = avsg.RowTable(3)
        self.owned = {}
        self.leases = []

    def remember(self, name, row, lease):
        assert 0 <= row < 3 and 0 < lease <= MAX_LEASE
        assert lease not in self.leases, "a lease is never given twice"
        self.leases.append(lease)
        self.owned[name] = (row, lease)

    @rule(name=st.integers(0, 5))
    def admit(self, name):
        if name in self.owned:
            with pytest.raises(ValueError, match=f"{name} is admitted already.*renew"):
                self.table.admit(name)
        elif len(self.owned) == 3:
            with pytest.raises(avsg.RowTableFull, match="all 3 rows taken.*queue"):
                self.table.admit(name)
        else:
            taken = {row for row, _ in self.owned.values()}
            row, lease = self.table.admit(name)
            assert row == min({0, 1, 2} - taken)
            self.remember(name, row, lease)

    @rule(name=st.integers(0, 5))
    def release(self, name):
        if name in self.owned:
            self.table.release(name)
            del self.owned[name]
        else:
            with pytest.raises(KeyError, match=f"{name} owns no row"):
                self.table.release(name)

    @rule(name=st.integers(0, 5))
    def renew(self, name):
        if name in self.owned:
            row, _ = self.owned[name]
            self.remember(name, row, self.table.renew(name))
        else:
            with pytest.raises(KeyError, match=f"{name} owns no row"):
                self.table.renew(name)

    @precondition(lambda self: self.owned)
    @rule()
    def renew_all(self):
        renewed = self.table.renew_all()
        assert set(renewed) == set(self.owned)
        for name, lease in renewed.items():
            self.remember(name, self.owned[name][0], lease)

    @invariant()
    def lookups_agree(self):
        assert len(self.table) == len(self.owned) and self.table.capacity == 3
        for name in range(6):
            assert (name in self.table) == (name in self.owned)
            if name in self.owned:
                assert self.table[name] == self.owned[name]
                assert (self.table[name].row, self.table[name].lease) == self.owned[name]
            else:
                with pytest.raises(KeyError, match="admit it first"):
                    self.table[name]


RowTableLaws.TestCase.settings = settings(
    max_examples=60, stateful_step_count=30, deadline=None, derandomize=True
)
TestRowTableLaws = RowTableLaws.TestCase


def test_leases_end_with_a_sentence_and_change_nothing():
    table = avsg.RowTable(3)
    table.admit("a")
    table.admit("b")
    table._last_lease = MAX_LEASE - 1
    before = (table["a"], table["b"])
    with pytest.raises(OverflowError, match="2147483646 leases.*new RowTable.*pool.reset"):
        table.renew_all()
    assert (table["a"], table["b"]) == before
    assert table.admit("c").lease == MAX_LEASE
    table.release("b")
    for last in (lambda: table.renew("a"), lambda: table.admit("d")):
        with pytest.raises(OverflowError, match="last that an int32 can hold"):
            last()
    assert table["a"] == before[0] and len(table) == 2


@pytest.mark.parametrize(
    "num_rows, error", [(0, ValueError), (-1, ValueError), (2.0, TypeError), (True, TypeError)]
)
def test_wrong_number_of_rows_is_refused(num_rows, error):
    with pytest.raises(error, match="num_rows is .*PoolConfig.num_rows"):
        avsg.RowTable(num_rows)


def test_threads_never_share_a_row_or_a_lease():
    table = avsg.RowTable(64)
    owned = []

    def admit(first):
        owned.extend(table.admit((first, i)) for i in range(16))

    threads = [threading.Thread(target=admit, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({row for row, _ in owned}) == len({lease for _, lease in owned}) == 64
