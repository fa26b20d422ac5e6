from uuid import UUID

import pytest

from ottla.metadata.bootstrap import bootstrap_records, decode_uuid, encode_uuid, new_cluster_id, usable_uuid


def test_ids_are_22_characters_of_base64():
    value = UUID("12345678-1234-5678-1234-567812345678")
    assert encode_uuid(value) == "EjRWeBI0VngSNFZ4EjRWeA"
    assert decode_uuid("EjRWeBI0VngSNFZ4EjRWeA") == value
    assert new_cluster_id(lambda: value) == "EjRWeBI0VngSNFZ4EjRWeA"


@pytest.mark.parametrize("text", ["", "short", "EjRWeBI0VngSNFZ4EjRWeA=", "x" * 40])
def test_other_texts_are_no_ids(text):
    with pytest.raises(ValueError, match="22 characters"):
        decode_uuid(text)


def test_reserved_ids_and_those_that_look_like_options_are_passed_over():
    looks_like_an_option = UUID(bytes=b"\xf8" + bytes(15))
    assert encode_uuid(looks_like_an_option).startswith("-")
    good = UUID(int=2**100)
    offered = iter([UUID(int=0), UUID(int=1), UUID(int=99), looks_like_an_option, good])
    assert usable_uuid(lambda: next(offered)) == good


def test_a_new_cluster_finalizes_its_features_metadata_version_first():
    records = [(record.name, record.feature_level) for record in bootstrap_records()]
    assert records == [("metadata.version", 29), ("transaction.version", 2), ("group.version", 1)]
