"""Decide, append, replay, commit: with commits that lag, fail and lose leadership."""

import asyncio
from types import SimpleNamespace

import pytest

from ottla.base.errors import ApiError, ErrorCode
from ottla.metadata.controller.decision import RECORDS_PER_DECISION_MAX, Decision
from ottla.metadata.controller.topics import decide_create_topics
from ottla.metadata.image import MetadataBatch
from ottla.metadata.runtime import UNCOMMITTED_BATCHES_MAX, ControllerRuntime
from ottla.wire import api
from tests.unit.metadata.cluster import FakeMetadataLog, image_of, replay, settings, topic_records


class Listener:
    def __init__(self):
        self.created = []

    def on_metadata(self, delta, image):
        self.created.append([topic.name for topic in delta.topics_created])
        assert all(name in image.topics for name in self.created[-1])


class Controller:
    def __init__(self):
        image = image_of()
        self.log = FakeMetadataLog(image.offset + 1)
        self.runtime = ControllerRuntime(self.log, image)
        self.runtime.resume()
        self.listener = Listener()
        self.runtime.listen(self.listener)
        self._settings = settings()
        self._gates = {}
        self.log.gate = self._wait

    def hold_commits(self):
        self._held = asyncio.Event()
        return self._held

    async def _wait(self, offset):
        held = getattr(self, "_held", None)
        if held is not None:
            await held.wait()

    async def create(self, name):
        request = api.CreateTopicsRequest(
            topics=[api.CreateTopicsRequest.CreatableTopic(name=name, num_partitions=1, replication_factor=1)]
        )
        reply = await self.runtime.submit(
            lambda image: decide_create_topics(image, request, self._settings, describe_configs=False)
        )
        return ErrorCode(reply.topics[0].error_code).name


async def in_background(coroutine):
    task = asyncio.ensure_future(coroutine)
    await asyncio.sleep(0)
    return task


def run(scenario):
    asyncio.run(scenario(Controller()))


def test_a_reply_means_committed_applied_and_told():
    async def scenario(controller):
        assert await controller.create("orders") == "NONE"
        assert "orders" in controller.runtime.image.topics
        assert controller.listener.created == [["orders"]]

    run(scenario)


def test_nothing_is_seen_or_told_before_the_commit():
    async def scenario(controller):
        held = controller.hold_commits()
        waiting = await in_background(controller.create("orders"))
        assert controller.log.batches
        assert not controller.runtime.image.topics
        assert not controller.listener.created
        assert not waiting.done()
        held.set()
        assert await waiting == "NONE"
        assert "orders" in controller.runtime.image.topics

    run(scenario)


def test_the_next_decision_sees_what_is_appended_and_waits_for_it():
    async def scenario(controller):
        held = controller.hold_commits()
        first = await in_background(controller.create("orders"))
        second = await in_background(controller.create("orders"))
        assert len(controller.log.batches) == 1  # The second request has nothing to append…
        assert not second.done()  # …and still may not tell of a topic that nobody has committed.
        held.set()
        assert [await first, await second] == ["NONE", "TOPIC_ALREADY_EXISTS"]

    run(scenario)


def test_listeners_hear_in_log_order():
    async def scenario(controller):
        held = controller.hold_commits()
        tasks = [await in_background(controller.create(name)) for name in ("a", "b", "c")]
        held.set()
        await asyncio.gather(*tasks)
        assert [name for names in controller.listener.created for name in names] == ["a", "b", "c"]

    run(scenario)


def test_a_failed_commit_voids_what_was_appended():
    async def scenario(controller):
        held = controller.hold_commits()
        controller.log.commit_error = "fsync failed"
        tasks = [await in_background(controller.create(name)) for name in ("a", "b")]
        held.set()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        assert [error.code for error in outcomes] == [ErrorCode.REQUEST_TIMED_OUT] * 2
        assert not controller.runtime.image.topics
        assert not controller.listener.created
        with pytest.raises(ApiError) as refused:
            await controller.create("c")
        assert refused.value.code is ErrorCode.NOT_CONTROLLER

    run(scenario)


def test_a_new_leadership_goes_on_from_what_the_log_holds():
    async def scenario(controller):
        await controller.create("a")
        controller.log.commit_error = "deposed"
        with pytest.raises(ApiError):
            await controller.create("b")
        survivor = controller.log.batches[-1]
        controller.log.commit_error = None
        controller.runtime.follow([survivor])
        controller.runtime.resume()
        assert await controller.create("b") == "TOPIC_ALREADY_EXISTS"
        assert controller.listener.created == [["a"], ["b"]]
        assert await controller.create("c") == "NONE"

    run(scenario)


def test_a_follower_hears_of_what_others_have_committed():
    async def scenario(controller):
        runtime = controller.runtime
        runtime.resign()
        runtime.follow([MetadataBatch(topic_records("a"), runtime.image.offset + 2, 1, 0)])
        assert controller.listener.created == [["a"]]
        with pytest.raises(ApiError) as refused:
            await controller.create("b")
        assert refused.value.code is ErrorCode.NOT_CONTROLLER

    run(scenario)


def test_records_of_the_quorum_move_the_image_and_tell_nobody():
    async def scenario(controller):
        runtime = controller.runtime
        offset = runtime.image.offset
        runtime.on_committed(offset + 3)
        assert runtime.image.offset == offset + 3
        assert controller.listener.created == []

    run(scenario)


def test_a_snapshot_in_place_of_missed_records_is_told_as_what_it_changed():
    async def scenario(controller):
        runtime = controller.runtime
        await controller.create("kept")
        await controller.create("deleted")
        runtime.resign()
        held, snapshot = runtime.image, runtime.image.copy()
        topic = snapshot.topics["deleted"]
        replay(snapshot, api.RemoveTopicRecord(topic_id=topic.id), *topic_records("new", number=7))
        heard = []
        runtime.listen(SimpleNamespace(on_metadata=lambda delta, image: heard.append((delta, image.offset))))
        runtime.replace(snapshot)
        ((delta, offset),) = heard
        assert [topic.name for topic in delta.topics_created] == ["new"]
        assert [topic.name for topic in delta.topics_deleted] == ["deleted"]
        assert not delta.partitions_changed
        assert runtime.image is held
        assert sorted(held.topics) == ["kept", "new"]
        assert held.offset == offset

    run(scenario)


def test_who_waited_in_an_older_term_learns_nothing_from_a_newer_one():
    async def scenario(controller):
        held = controller.hold_commits()
        waiting = await in_background(controller.create("a"))
        controller.runtime.resign()
        controller.runtime.resume()
        held.set()
        with pytest.raises(ApiError) as undecided:
            await waiting
        assert undecided.value.code is ErrorCode.REQUEST_TIMED_OUT
        assert not controller.runtime.image.topics

    run(scenario)


def test_a_disk_that_refuses_the_write_changes_nothing_and_heals():
    async def scenario(controller):
        controller.log.append_error = OSError(28, "No space left on device")
        with pytest.raises(ApiError, match="No space left") as refused:
            await controller.create("orders")
        assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
        controller.log.append_error = None
        assert await controller.create("orders") == "NONE"

    run(scenario)


def test_the_last_room_is_used_for_a_change():
    async def scenario(controller):
        controller.log.append_error = OSError(28, "No space left on device")

        async def make_room():
            controller.log.append_error = None
            return True

        controller.runtime = ControllerRuntime(controller.log, controller.runtime.image, make_room)
        controller.runtime.resume()
        assert await controller.create("orders") == "NONE"

    run(scenario)


def test_a_refusing_decision_passes_through():
    async def scenario(controller):
        def refuse(image):
            raise ApiError(ErrorCode.STALE_BROKER_EPOCH, "old")

        with pytest.raises(ApiError, match="old"):
            await controller.runtime.submit(refuse)
        assert not controller.log.batches

    run(scenario)


def test_a_long_decision_is_several_batches_in_order():
    async def scenario(controller):
        records = [
            record
            for number in range(RECORDS_PER_DECISION_MAX // 2 + 5)
            for record in topic_records(f"t{number}", number=number)
        ]
        await controller.runtime.submit(lambda image: Decision(records=records, reply=None))
        assert [len(batch.records) for batch in controller.log.batches] == [RECORDS_PER_DECISION_MAX, 10]
        assert len(controller.runtime.image.topics) == RECORDS_PER_DECISION_MAX // 2 + 5

    run(scenario)


def test_too_many_uncommitted_changes_are_refused_not_queued():
    async def scenario(controller):
        held = controller.hold_commits()
        tasks = [await in_background(controller.create(f"t{n}")) for n in range(UNCOMMITTED_BATCHES_MAX)]
        with pytest.raises(ApiError, match="try again"):
            await controller.create("one-more")
        held.set()
        assert set(await asyncio.gather(*tasks)) == {"NONE"}
        assert await controller.create("one-more") == "NONE"

    run(scenario)
