# Copyright The flux-elastic Authors
# SPDX-License-Identifier: Apache-2.0
"""The output of a MiniCluster: the log of the lead broker, through all attempts."""
from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

from . import errors, models, status
from ._model import format_time, parse_time
from .cluster import Cluster, one_of, pods_of
from .transport import Limit, Query

_POLL = 0.5
_SILENCE = 90  # seconds without a line, after which a log is opened anew: the way may have died silently


def read(cluster: Cluster, get: Callable[[Limit], models.MiniCluster], follow: bool, limit: Limit) -> Iterator[str]:
    """Yield the lines of the output of a MiniCluster that get returns, as MiniCluster.logs does."""
    log, begun, pause = _Log(cluster, limit), False, _POLL
    while True:
        mc = get(limit)
        lead, name, ended = cluster.lead(mc, limit), status.name_of(mc), status.has_ended(mc)
        if lead is not None and _begun(lead, name):
            begun = True
            yield from log.read(lead, name, follow and not ended)
        if not follow or ended:
            if not begun:
                raise errors.NoLog(f"there is no log of {name}: it is {status.state_of(mc)}", status.reason_of(mc))
            return
        limit.pause(pause)
        pause = min(2 * pause, 8 * _POLL)


_Stamp = Tuple[datetime, str]
_NEVER: _Stamp = (datetime.min.replace(tzinfo=timezone.utc), "")


class _Log:
    """What was read of a log, so that no line comes twice. Each line begins with its time, in the zone of the node."""

    def __init__(self, cluster: Cluster, limit: Limit) -> None:
        self._cluster, self._limit = cluster, limit
        self._pod = ""
        self._last = self._known = _NEVER

    def read(self, pod: Dict[str, Any], container: str, follow: bool) -> Iterator[str]:
        """Yield the lines of a pod that were not read yet, until the log ends, or with follow until it breaks off."""
        metadata = pod["metadata"]
        path = one_of(pods_of(metadata["namespace"]), metadata["name"], "log")
        query = [("container", container), ("timestamps", "true")] + self._since(metadata["uid"])
        simulated = _is_simulated(pod, container)
        try:
            if follow or simulated:
                lines = self._cluster.stream(path, query + ([("follow", "true")] if follow else []), _SILENCE)
            else:
                lines = iter(self._cluster.lines(path, query, self._limit))
            for line in lines:
                text = self._new(line)
                if text is not None:
                    yield text
        except errors.RequestError as error:
            if simulated:
                raise errors.NoLog(f"pod {metadata['name']} is on node {pod['spec'].get('nodeName')}, which is simulated: "
                                   "no command runs there, and there is no output", "Simulated") from error
            if not follow or error.status in (401, 403):
                raise

    def _since(self, uid: str) -> Query:
        """Return what to ask for, so that the log of a pod goes on where the log broke off."""
        if uid != self._pod:
            self._pod, self._last = uid, _NEVER
        self._known = self._last
        return [] if self._last == _NEVER else [("sinceTime", format_time(self._last[0] - timedelta(seconds=1)))]

    def _new(self, line: str) -> Optional[str]:
        """Return the text of a line; None if the line was read before."""
        stamp, _, text = line.partition(" ")
        match = re.fullmatch(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)\.?(\d*)(Z|[+-]\d\d:\d\d)", stamp)
        if match is None:  # a line of the kubelet
            return line
        time = parse_time(match[1] + match[3])
        assert time is not None
        at = time.astimezone(timezone.utc), match[2].ljust(9, "0")
        if at <= self._known:
            return None
        self._last = max(at, self._last)
        return text.rstrip("\r")


def _status_of(pod: Dict[str, Any], container: str) -> Dict[str, Any]:
    statuses: List[Dict[str, Any]] = pod.get("status", {}).get("containerStatuses") or []
    return next((one for one in statuses if one["name"] == container), {})


def _begun(pod: Dict[str, Any], container: str) -> bool:
    state = _status_of(pod, container).get("state") or {}
    return bool(state.get("running") or state.get("terminated"))


def _is_simulated(pod: Dict[str, Any], container: str) -> bool:
    """Report whether a container began on a node without a kubelet, which gives an ID to each container it starts. A
    container of a node that is lost may have no ID, too."""
    state = _status_of(pod, container)
    is_lost = ((state.get("state") or {}).get("terminated") or {}).get("reason") == "ContainerStatusUnknown"
    return _begun(pod, container) and not state.get("containerID") and not is_lost
