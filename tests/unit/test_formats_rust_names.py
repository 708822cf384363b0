"""Names of Rust's functions, of both manglings."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from latlab.formats.rust_names import rust_name

V0 = {
    "_RNvCsa6iuW3AMkEv_8accounts8transfer": "accounts::transfer",
    "_RNvNvMs0_NtNtNtCsjrHSEGnQ3l9_3std3sys6thread4unixNtB7_6Thread3new12thread_start": (
        "<std::sys::thread::unix::Thread>::new::thread_start"
    ),
    "_RNCNvCs1234_7example4mains_0B3_": "example::main::{closure#1}",
    "_RINvNtC3std3mem8align_ofNtNtC3std3mem12DiscriminantE": "std::mem::align_of",
    "_RNvXC4appsNtB2_4TileNtB2_4Draw4draw": "<apps::Tile as apps::Draw>::draw",
}


@pytest.mark.parametrize("name", list(V0))
def test_a_name_of_the_v0_mangling_is_told_as_its_source_spells_it(name: str) -> None:
    assert rust_name(name) == V0[name]


def test_the_older_mangling_loses_its_hash_and_its_escapes() -> None:
    assert rust_name("ledger::Bank::post::h0123456789abcdef") == "ledger::Bank::post"
    assert rust_name("_$LT$app..Tile$u20$as$u20$app..Draw$GT$::draw::h0123456789abcdef") == (
        "<app::Tile as app::Draw>::draw"
    )


@pytest.mark.parametrize(
    "name", ["_R", "_RNv", "_RNvB_1a", "_RNvC9short", "main", "Redis::get(int)", "_Read"]
)
def test_what_is_no_name_of_rust_stays_as_it_is(name: str) -> None:
    assert rust_name(name) == name


@given(st.text(alphabet="_RNvCsBIETM0123456789abz", max_size=60))
def test_no_text_makes_the_reader_fail(text: str) -> None:
    assert isinstance(rust_name("_R" + text), str)
