"""Who is alive: sessions of brokers, with the time handed in."""

from uuid import UUID

from ottla.metadata.controller.sessions import BrokerSessions
from ottla.wire import api
from tests.unit.metadata.cluster import broker_record, image_of, replay

TIMEOUT_MS = 9000


def cluster():
    return image_of(brokers=3), BrokerSessions(TIMEOUT_MS)


def heartbeat(broker_id, epoch=7, offset=0):
    return api.BrokerHeartbeatRequest(broker_id=broker_id, broker_epoch=epoch, current_metadata_offset=offset)


def expired(sessions, image, now_ms):
    return [broker.id for broker in sessions.expired(image, now_ms)]


def looks(sessions, image, until_ms):
    """Looked at every second, as a controller does."""
    return [expired(sessions, image, now_ms) for now_ms in range(0, until_ms + 1, 1000)][-1]


def test_a_new_controller_gives_every_broker_a_whole_session():
    image, sessions = cluster()
    assert looks(sessions, image, 8000) == []
    assert expired(sessions, image, 9000) == [1, 2, 3]


def test_the_session_of_a_controller_that_fell_silent_began_before_its_successor_did():
    image, sessions = cluster()
    sessions.on_silence(image, 2, -2000)
    assert looks(sessions, image, 6000) == []
    assert expired(sessions, image, 7000) == [2]


def test_a_controller_that_is_heard_again_has_a_whole_session():
    image, sessions = cluster()
    sessions.on_silence(image, 2, -2000)
    sessions.on_heartbeat(image, heartbeat(2), 500)
    assert looks(sessions, image, 8000) == []


def test_a_heartbeat_keeps_a_broker_alive():
    image, sessions = cluster()
    looks(sessions, image, 8000)
    sessions.on_heartbeat(image, heartbeat(2), 8000)
    assert expired(sessions, image, 9000) == [1, 3]


def test_a_heartbeat_of_an_older_incarnation_keeps_nobody_alive():
    image, sessions = cluster()
    looks(sessions, image, 8000)
    sessions.on_heartbeat(image, heartbeat(2, epoch=6), 8000)
    assert expired(sessions, image, 9000) == [1, 2, 3]


def test_a_new_registration_starts_a_new_session():
    image, sessions = cluster()
    looks(sessions, image, 8000)
    replay(image, broker_record(2, broker_epoch=8))
    assert expired(sessions, image, 9000) == [1, 3]


def test_a_fenced_broker_is_not_fenced_again():
    image, sessions = cluster()
    replay(image, broker_record(2, fenced=True))
    looks(sessions, image, 8000)
    assert expired(sessions, image, 9000) == [1, 3]


def test_a_hint_ends_the_session_at_once_and_only_that_of_the_incarnation_it_names():
    image, sessions = cluster()
    sessions.on_gone(image, 1, 6, 0)
    sessions.on_gone(image, 2, 7, 0)
    assert expired(sessions, image, 1) == [2]
    assert not sessions.is_alive(image.brokers[2], 1)


def test_a_broker_that_answers_after_all_is_alive_again():
    image, sessions = cluster()
    sessions.on_gone(image, 2, 7, 0)
    sessions.on_heartbeat(image, heartbeat(2), 1)
    assert sessions.is_alive(image.brokers[2], 2)


def test_who_was_heard_is_in_contact_until_its_connection_is_lost():
    image, sessions = cluster()
    broker = image.brokers[2]
    assert not sessions.is_in_contact(broker, 0)
    sessions.on_heartbeat(image, heartbeat(2), 0)
    assert sessions.is_in_contact(broker, 1)
    sessions.on_cut(2, 6)
    assert sessions.is_in_contact(broker, 1)
    sessions.on_cut(2, 7)
    assert not sessions.is_in_contact(broker, 1)
    assert sessions.is_alive(broker, 1)
    sessions.on_heartbeat(image, heartbeat(2), 2)
    assert sessions.is_in_contact(broker, 3)
    assert not sessions.is_in_contact(broker, 2 + TIMEOUT_MS)


def test_a_controller_that_stood_still_blames_nobody():
    image, sessions = cluster()
    looks(sessions, image, 1000)
    assert expired(sessions, image, 60_000) == []
    assert expired(sessions, image, 64_000) == []
    assert expired(sessions, image, 68_000) == []
    assert expired(sessions, image, 69_000) == [1, 2, 3]


def test_a_controller_that_stood_still_before_its_first_look_blames_nobody_either():
    image, sessions = image_of(brokers=3), BrokerSessions(TIMEOUT_MS, 0)
    sessions.on_heartbeat(image, heartbeat(1), 0)
    assert expired(sessions, image, 10 * TIMEOUT_MS) == []


def test_everybody_is_told_once_every_active_broker_has_applied_the_handover():
    image, sessions = cluster()
    replay(image, api.BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=7, in_controlled_shutdown=1))
    sessions.on_heartbeat(image, heartbeat(1), 0)
    told_offset = image.offset
    sessions.on_heartbeat(image, heartbeat(2, offset=told_offset), 0)
    assert not sessions.has_been_told(image, 1)
    sessions.on_heartbeat(image, heartbeat(3, offset=told_offset - 1), 0)
    assert not sessions.has_been_told(image, 1)
    sessions.on_heartbeat(image, heartbeat(3, offset=told_offset), 0)
    assert sessions.has_been_told(image, 1)


def test_a_fenced_broker_need_not_be_told():
    image, sessions = cluster()
    replay(image, api.BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=7, in_controlled_shutdown=1))
    replay(image, broker_record(3, fenced=True))
    sessions.on_heartbeat(image, heartbeat(1), 0)
    sessions.on_heartbeat(image, heartbeat(2, offset=image.offset), 0)
    assert sessions.has_been_told(image, 1)


# ---- directories that failed ----


def test_what_a_broker_says_of_its_directories_is_known_of_the_incarnation_that_said_it():
    image, sessions = cluster()
    failed = UUID(int=31)
    said = heartbeat(2)
    said.offline_log_dirs = [failed]
    assert sessions.offline_directories(image) == {}
    assert [sessions.on_heartbeat(image, said, 0) for _ in range(2)] == [True, False]
    assert sessions.offline_directories(image) == {2: {failed}}
    replay(image, broker_record(2, broker_epoch=9))
    assert sessions.offline_directories(image) == {}
    assert not sessions.on_heartbeat(image, said, 0)
    assert sessions.on_heartbeat(image, heartbeat(2, epoch=9), 0)
    assert sessions.offline_directories(image) == {2: set()}
