"""What the components of frameworks share."""

from __future__ import annotations

import asyncio
import copy
import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest

from surprise_rerank.connectors.attached.settings import PipelineSettings
from surprise_rerank.connectors.components import (
    Lazy,
    component_settings,
    given_vectors,
    judged_metadata,
    require_writable,
    stored_names,
)
from surprise_rerank.errors import DataError


class Loader:
    """Counts how often it loads, and takes its time; the first `faults` loads fail."""

    def __init__(self, faults: int = 0) -> None:
        self.loads = 0
        self.faults = faults

    def __call__(self) -> list[str]:
        self.loads += 1
        time.sleep(0.02)
        if self.loads <= self.faults:
            raise DataError("not yet")
        return ["loaded"]


def test_threads_and_tasks_that_ask_at_once_share_one_load():
    loader = Loader()
    lazy = Lazy(loader)
    assert loader.loads == 0
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: lazy.get(), range(8)))

    async def ask() -> list[list[str]]:
        return await asyncio.gather(*(lazy.aget() for _ in range(8)))

    assert all(one is found[0] for one in [*found, *asyncio.run(ask())])
    assert loader.loads == 1


def test_tasks_load_in_a_thread():
    async def both() -> list[str]:
        lazy = Lazy(Loader())
        task = asyncio.create_task(lazy.aget())
        turns = 0
        while not task.done():
            await asyncio.sleep(0.001)
            turns += 1
        assert turns > 2
        return await task

    assert asyncio.run(both()) == ["loaded"]


def test_what_could_not_be_loaded_is_tried_again():
    lazy = Lazy(Loader(faults=1))
    with pytest.raises(DataError, match="not yet"):
        lazy.get()
    assert lazy.get() == ["loaded"]


def test_what_was_loaded_can_be_forgotten_and_what_was_given_stays():
    loader = Loader()
    lazy = Lazy(loader)
    lazy.get()
    lazy.forget()
    lazy.get()
    assert loader.loads == 2
    mine = ["mine"]
    given = Lazy(loader, mine)
    given.forget()
    assert given.get() is mine
    assert loader.loads == 2


class Locked:
    """What cannot be copied, as an open index; counts how often it was made."""

    made = 0

    def __init__(self) -> None:
        Locked.made += 1
        self.lock = threading.RLock()


def test_a_copy_shares_what_was_loaded_and_forgets_it_alone():
    before = Locked.made
    lazy = Lazy(Locked)
    cold = copy.deepcopy(lazy)
    loaded = lazy.get()
    assert Locked.made == before + 1
    warm = copy.deepcopy({"component": lazy})["component"]
    assert warm.get() is loaded
    assert Locked.made == before + 1
    warm.forget()
    assert lazy.get() is loaded
    assert warm.get() is not loaded
    assert cold.get() is not loaded
    assert Locked.made == before + 3


def test_a_copy_shares_what_was_given():
    mine = Locked()
    given = copy.deepcopy(Lazy(Locked, mine))
    assert given.is_given
    assert given.get() is mine


def test_metadata_are_copied_and_have_the_surprise_of_the_new_score_only():
    given = {"year": 2020, "surprise": 0.5}
    assert judged_metadata(given, 0.9) == {"year": 2020, "surprise": 0.9}
    assert judged_metadata(given, None) == {"year": 2020}
    assert given == {"year": 2020, "surprise": 0.5}


def test_names_become_settings():
    assert component_settings(None, "reranker", index="a", system="cosine") == PipelineSettings(
        "a", system="cosine"
    )
    assert component_settings(object(), "reranker", index=None) == PipelineSettings()


@pytest.mark.parametrize(
    ("given", "names", "message"),
    [
        (object(), {"model": "words"}, "both reranker= and names of one are given"),
        (None, {"index": "a", "url": "http://localhost"}, "are both given"),
        (None, {"url": "http://me:secret@localhost"}, "url='http://localhost' came with a password"),
        (None, {"index": "http://me:secret@localhost/a"}, "index='http://localhost' came with a password"),
        (None, {"index": "http://me:secret@localhost"}, "'http://localhost' names no collection"),
    ],
)
def test_what_contradicts_itself_or_would_write_a_secret_is_refused(
    given: object, names: dict[str, str], message: str
):
    with pytest.raises(DataError, match=message) as refused:
        component_settings(given, "reranker", **names)
    assert "secret" not in str(refused.value)


def test_an_object_that_was_given_has_no_names():
    names = require_writable(Lazy(Loader()), "Ranker", "reranker", PipelineSettings(system="cosine"))
    assert PipelineSettings(**names) == PipelineSettings(system="cosine")
    with pytest.raises(DataError, match="a Ranker that was given reranker= cannot be written"):
        require_writable(Lazy(Loader(), ["mine"]), "Ranker", "reranker", PipelineSettings())
    with pytest.raises(DataError, match="a Ranker that was given encoder= cannot be written"):
        require_writable(Lazy(Loader()), "Ranker", "reranker", PipelineSettings(encoder=len))


def test_settings_that_there_are_not_are_told_with_those_that_there_are():
    with pytest.raises(
        DataError, match=r"Ranker has no setting 'sytem'; did you mean 'system'\? there are: .*top_n, url"
    ):
        PipelineSettings.of({"sytem": "auto"}, "Ranker", ["top_n"])
    with pytest.raises(
        DataError, match="unknown system 'atuo'; did you mean 'auto'\\? there are: auto, cosine"
    ):
        PipelineSettings.of({"system": "atuo"}, "Ranker")
    with pytest.raises(DataError, match="model='m' and encoder= are both given"):
        PipelineSettings(model="m", encoder=len)
    with pytest.raises(DataError, match="background='b' is for texts without an index"):
        PipelineSettings(index="i", background="b")


def test_ids_of_an_index_are_strings_and_uuids():
    own = uuid.uuid4()
    assert stored_names("a", None, 3, own, "a", "", True) == ("a", str(own))
    assert stored_names(None, 3) is None
    assert given_vectors([None, None]) is None
    assert given_vectors([None, [1.0]]) == [None, [1.0]]
