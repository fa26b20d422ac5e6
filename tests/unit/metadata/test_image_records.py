"""An image written out as records is the same image again."""

from uuid import UUID

from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.metadata.image import MetadataImage
from ottla.metadata.image_records import image_records
from ottla.metadata.records import decode_record, encode_record
from ottla.wire import api
from tests.unit.metadata.cluster import broker_record, image_of, replay, topic_records


def contents(image):
    return (
        {name: (topic.id, topic.partitions) for name, topic in image.topics.items()},
        image.configs,
        image.brokers,
        image.controllers,
        image.features,
        image.next_producer_id,
        image.scram_credentials,
    )


def written_and_read(image):
    twin = MetadataImage()
    replay(twin, *(decode_record(encode_record(record)) for record in image_records(image)))
    return twin


def test_everything_comes_back():
    image = image_of(
        *topic_records("orders", partitions=3, replicas=(1, 2)),
        api.PartitionChangeRecord(
            partition_id=1,
            topic_id=UUID(int=101),
            leader=2,
            isr=[2],
            removing_replicas=[1],
            adding_replicas=[3],
            eligible_leader_replicas=[1],
            last_known_elr=[3],
            leader_recovery_state=1,
        ),
        api.ConfigRecord(resource_type=2, resource_name="orders", name="retention.ms", value="5"),
        api.ConfigRecord(resource_type=4, resource_name="", name="log.retention.ms", value="6"),
        api.ProducerIdsRecord(broker_id=1, next_producer_id=3000),
        api.UserScramCredentialRecord(
            name="anna", mechanism=1, salt=b"s", stored_key=b"k", server_key=b"v", iterations=5000
        ),
        api.UserScramCredentialRecord(
            name="anna", mechanism=2, salt=b"", stored_key=b"l", server_key=b"w", iterations=4096
        ),
        api.RegisterControllerRecord(
            controller_id=1,
            end_points=[api.RegisterControllerRecord.ControllerEndpoint(name="C", host="h", port=1)],
            features=[api.RegisterControllerRecord.ControllerFeature(name="f", max_supported_version=2)],
        ),
        broker_record(3, rack="a", fenced=True, in_controlled_shutdown=True),
        brokers=2,
    )
    assert contents(written_and_read(image)) == contents(image)


def test_the_metadata_version_comes_first():
    image = image_of(api.FeatureLevelRecord(name="a.version", feature_level=1))
    assert next(iter(image_records(image))).name == "metadata.version"


@settings(max_examples=50)
@given(
    st.lists(st.sampled_from("abcdef"), unique=True),
    st.dictionaries(st.sampled_from(["retention.ms", "segment.ms"]), st.text(max_size=5)),
)
def test_any_topics_and_configurations_come_back(names, texts):
    image = image_of(
        *(record for number, name in enumerate(names) for record in topic_records(name, number=number, partitions=2)),
        *(
            api.ConfigRecord(resource_type=2, resource_name=name, name=key, value=value)
            for name in names
            for key, value in texts.items()
        ),
    )
    assert contents(written_and_read(image)) == contents(image)
