from ottla.log.handles import HandleCache


class Owner:
    def __init__(self, cache: HandleCache) -> None:
        self.used = False
        self.is_open = False
        self._cache = cache

    def open(self) -> None:
        self.is_open = True
        self.used = True
        self._cache.admit(self)

    def release_handle(self) -> None:
        self.is_open = False


def test_never_more_than_the_limit_are_open() -> None:
    cache = HandleCache(open_files_max=3)
    owners = [Owner(cache) for _ in range(10)]
    for owner in owners:
        owner.open()
        assert owner.is_open, "the newest one is never the one to go"
        assert sum(each.is_open for each in owners) <= 3
    assert len(cache) == 3


def test_a_used_one_outlives_an_idle_one() -> None:
    cache = HandleCache(open_files_max=3)
    busy, idle, third = (Owner(cache) for _ in range(3))
    for owner in (busy, idle, third):
        owner.open()
    Owner(cache).open()  # Everyone was used until now: the oldest goes, and all lose their second chance.
    busy.open()
    busy.used, idle.used, third.used = True, False, False
    Owner(cache).open()
    assert busy.is_open
    assert not idle.is_open


def test_a_forgotten_one_makes_room() -> None:
    cache = HandleCache(open_files_max=1)
    first, second = Owner(cache), Owner(cache)
    first.open()
    cache.forget(first)
    second.open()
    assert first.is_open, "its owner closes it, not the cache"
    assert len(cache) == 1
