"""The table of APIs."""

from kio.schema.index import api_key_map

from ottla.wire import api
from ottla.wire.apis import API_INFO, ApiKey


def test_every_api_of_the_oracle_is_there() -> None:
    assert list(API_INFO) == sorted(api_key_map)
    for key, name in api_key_map.items():
        assert ApiKey(key).name.lower() == name
    assert len(ApiKey) == 89


def test_versions_and_classes() -> None:
    produce = API_INFO[ApiKey.PRODUCE]
    assert (produce.name, produce.versions, produce.flexible_from) == ("Produce", (3, 13), 9)
    assert produce.request is api.ProduceRequest
    assert produce.response is api.ProduceResponse
    assert not produce.is_flexible(8)
    assert produce.is_flexible(9)
    assert not API_INFO[ApiKey.SASL_HANDSHAKE].is_flexible(1)


def test_request_and_response_agree() -> None:
    for info in API_INFO.values():
        response = info.response.SCHEMA.heading
        assert (response.number, response.versions) == (info.key, info.versions), info.name
        assert response.flexible_from == info.flexible_from, info.name


def test_listeners() -> None:
    assert API_INFO[ApiKey.PRODUCE].listeners == {"broker"}
    assert API_INFO[ApiKey.VOTE].listeners == {"controller"}
    assert API_INFO[ApiKey.API_VERSIONS].listeners == {"broker", "controller"}
    assert all(info.listeners for info in API_INFO.values())
