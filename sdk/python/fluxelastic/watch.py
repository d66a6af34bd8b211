# Copyright The flux-elastic Authors
# SPDX-License-Identifier: Apache-2.0
"""One watch for all who wait for MiniClusters of a namespace."""
from __future__ import annotations

import json
import threading
from time import monotonic, sleep
from typing import Any, Callable, Dict, List, Optional

from . import errors, models
from .transport import Limit, Query, Transport, request_error


class Follower:
    """What somebody who waits knows of a MiniCluster. It is a context manager.

    last is the last state that is known, also of a MiniCluster that is gone, and None if none is known. gone says that
    the MiniCluster was deleted, also if its name belongs to another MiniCluster now.
    """

    def __init__(self, watch: "Watch", name: str, uid: Optional[str]) -> None:
        self.name = name
        self.last: Optional[models.MiniCluster] = None
        self.gone = False
        self._watch, self._uid = watch, uid
        self._asked = self._is_new = False
        self._version = -1
        self.changed = threading.Condition(watch.lock)

    def __enter__(self) -> "Follower":
        return self

    def __exit__(self, *_: Any) -> None:
        self._watch.leave(self)

    def next(self, limit: Limit) -> Optional[models.MiniCluster]:
        """Wait for a state that was not returned yet. It is None if the MiniCluster is gone.

        The error WaitTimeout says that there was none within the limit.
        """
        if not self._asked:
            self._ask(limit)
        with self.changed:
            while not self._is_new:
                if self._watch.error is not None:
                    raise self._watch.error
                left = limit.left()
                if not left:
                    raise errors.WaitTimeout(f"nothing new is known of {self.name}.")
                self.changed.wait(left)
            self._is_new = False
            return None if self.gone else self.last

    def _ask(self, limit: Limit) -> None:
        """Read the MiniCluster. What the watch has seen before somebody followed this name was not kept."""
        try:
            mc = self._watch.get(self.name, limit)
        except errors.Deleted:
            mc = None
        with self.changed:
            self.tell(mc, _version(mc.metadata if mc else None))
            self._uid, self._asked = _uid(self.last) or self._uid, True

    def tell(self, mc: Optional[models.MiniCluster], version: int, gone: bool = False) -> None:
        """Take a state of a version of the API server, None if there was no object. The caller holds the lock."""
        # Before the first read, lists and events may be older than the MiniCluster: then gone is not the end.
        if version <= self._version or self._asked and self.gone:
            return
        if mc is not None and self._uid not in (None, _uid(mc)):
            mc = None  # another MiniCluster has the name
        self.last, self.gone, self._version, self._is_new = mc or self.last, gone or mc is None, version, True
        self.changed.notify_all()


class Watch:
    """A list and a watch of the MiniClusters of a namespace, or of one of them, in a thread.

    The thread ends soon after the last follower has left. An error that does not pass ends it, and all who follow get
    the error. get reads one MiniCluster.
    """

    SERVER_TIMEOUT = 60

    def __init__(self, transport: Transport, path: str, only: str, get: Callable[[str, Limit], models.MiniCluster]) -> None:
        self.get, self.lock, self.ended = get, threading.Lock(), False
        self.error: Optional[errors.RequestError] = None
        self._transport, self._path, self._only = transport, path, only
        self._query: Query = [("fieldSelector", "metadata.name=" + only)] if only else []
        self._followers: Dict[str, List[Follower]] = {}
        self._listed: Optional[str] = None
        self._thread: Optional[threading.Thread] = None

    def join(self, name: str, uid: Optional[str]) -> Optional[Follower]:
        """Begin to follow a MiniCluster. It is None if the watch does not see the MiniCluster."""
        with self.lock:
            if self.ended or self._only not in ("", name):
                return None
            if self._thread is None:
                thread = threading.Thread(target=self._run, name="fluxelastic-watch", daemon=True)
                thread.start()
                self._thread = thread
            follower = Follower(self, name, uid)
            self._followers.setdefault(name, []).append(follower)
            return follower

    def leave(self, follower: Follower) -> None:
        """End what join began."""
        with self.lock:
            self._followers[follower.name].remove(follower)
            if not self._followers[follower.name]:
                del self._followers[follower.name]

    def _run(self) -> None:
        pause = 0.5
        try:
            while self._is_wanted():
                if self._listed is None and not self._list():
                    continue
                began = monotonic()
                self._watch()
                if monotonic() - began > 1:
                    pause = 0.5
                else:  # a way that ends watches at once
                    sleep(pause)
                    pause = min(2 * pause, 15)
        except Exception as error:  # without an end, all who follow would wait for ever
            self._fail(request_error(error))

    def _is_wanted(self) -> bool:
        with self.lock:
            self.ended = not self._followers
            return not self.ended

    def _fail(self, error: errors.RequestError) -> None:
        with self.lock:
            self.error, self.ended = error, True
            for followers in self._followers.values():
                for follower in followers:
                    follower.changed.notify_all()

    def _list(self) -> bool:
        """Read all states. It is False if all who followed have left before there was an answer."""
        try:
            answer = self._transport.request("GET", self._path, self._query, limit=Limit(stop=lambda: not self._followers))
        except errors.WaitTimeout:
            return False
        found = {item["metadata"]["name"]: item for item in answer["items"]}
        with self.lock:
            for name, followers in self._followers.items():
                item = found.get(name) or answer
                mc = models.MiniCluster.from_dict(item) if name in found else None
                for follower in followers:
                    follower.tell(mc, _version(item["metadata"]))
        self._listed = answer["metadata"]["resourceVersion"]
        return True

    def _watch(self) -> None:
        query = self._query + [("watch", "true"), ("allowWatchBookmarks", "true"), ("resourceVersion", self._listed),
                               ("timeoutSeconds", self.SERVER_TIMEOUT)]
        try:
            for line in self._transport.stream(self._path, query, self.SERVER_TIMEOUT + 30):
                self._take(json.loads(line))
                if not self._is_wanted():
                    return
        except (errors.RequestError, ValueError) as error:
            told = request_error(error)
            if not told.passes and told.status != 410:
                raise
            self._listed = None

    def _take(self, event: Dict[str, Any]) -> None:
        item = event["object"]
        if event["type"] == "ERROR":
            code = item.get("code") or 500
            raise errors.RequestError(str(item.get("message")), str(item.get("reason")), code, passes=code == 429 or code >= 500)
        self._listed = item["metadata"]["resourceVersion"]
        if event["type"] == "BOOKMARK":
            return
        with self.lock:
            followers = self._followers.get(item["metadata"]["name"], [])
            mc = models.MiniCluster.from_dict(item) if followers else None
            for follower in followers:
                follower.tell(mc, _version(item["metadata"]), gone=event["type"] == "DELETED")


def _version(metadata: Any) -> int:
    """Return the version of an object or a list, which rises with each change."""
    text = str((metadata or {}).get("resourceVersion", ""))
    return int(text) if text.isdigit() else 0


def _uid(mc: Optional[models.MiniCluster]) -> Optional[str]:
    return (mc.metadata or {}).get("uid") if mc else None
