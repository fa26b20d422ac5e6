import pytest

from ottla.cdc.lsn import lsn_text, parse_lsn


def test_positions_are_told_as_postgresql_tells_them() -> None:
    assert parse_lsn("16/B374D848") == 0x16_B374D848
    assert lsn_text(0x16_B374D848) == "16/B374D848"
    assert lsn_text(parse_lsn("0/1A")) == "0/1A"


def test_what_is_no_position_is_refused() -> None:
    with pytest.raises(ValueError, match="not a log position"):
        parse_lsn("B374D848")
