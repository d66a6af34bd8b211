# Copyright The flux-elastic Authors
# SPDX-License-Identifier: Apache-2.0
"""What a status says. Everything here is a function of an object: there is no client and no clock."""
from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Callable, Dict, List, Optional, Tuple

from . import errors, models
from ._model import format_time, parse_time

GOALS = ("admitted", "running", "finished", "deleted")
"""What a user can wait for: nodes, the command, its end, and that the MiniCluster is gone."""


def condition(mc: models.MiniCluster, kind: str) -> models.Condition:
    """Return a condition, or an empty one."""
    for one in (mc.status.conditions if mc.status else None) or []:
        if one.type == kind:
            return one
    return models.Condition()


def holds(mc: models.MiniCluster, kind: str) -> bool:
    """Report whether a condition is True."""
    return condition(mc, kind).status == "True"


def is_deleted(mc: models.MiniCluster) -> bool:
    """Report whether somebody has deleted the MiniCluster."""
    return bool((mc.metadata or {}).get("deletionTimestamp"))


def state_of(mc: models.MiniCluster) -> str:
    """Return the state that users see. It is New until a manager has looked at the MiniCluster."""
    if is_deleted(mc):
        return "Deleting"
    return condition(mc, "JobMiniClusterReady").reason or "New"


def reason_of(mc: models.MiniCluster) -> str:
    """Return the reason for which a MiniCluster waits, or its outcome; "" while the command runs."""
    if holds(mc, "Finished"):
        return condition(mc, "Finished").reason or ""
    if condition(mc, "Accepted").status == "False":
        return condition(mc, "Accepted").reason or ""
    if state_of(mc) == "Queued":
        return condition(mc, "Admitted").reason or ""
    return ""


def headline(mc: models.MiniCluster) -> str:
    """Return the sentence that says in which state a MiniCluster is, and why."""
    message = (condition(mc, "JobMiniClusterReady").message or "").rstrip(".")
    return f"{name_of(mc)} is {state_of(mc)}{': ' + message if message else ''}."


def name_of(mc: models.MiniCluster) -> str:
    return (mc.metadata or {}).get("name", "")


def is_current(mc: models.MiniCluster) -> bool:
    """Report whether the status belongs to the specification."""
    return bool(mc.status) and mc.status.observed_generation == (mc.metadata or {}).get("generation")


def reached(mc: models.MiniCluster, goal: str) -> bool:
    """Report whether a MiniCluster has reached a goal. An error says that the goal will not be reached by itself.

    For the goal finished, the error Failed also says that the MiniCluster has ended without success.
    """
    if goal == "deleted":
        return False  # the caller sees that the object is gone
    if is_deleted(mc) and not holds(mc, "Finished"):
        raise deleted(mc)
    if goal == "admitted" and (holds(mc, "Admitted") or mc.status and mc.status.start_time):
        return True
    if goal == "running" and holds(mc, "JobMiniClusterReady"):
        return True
    if holds(mc, "Finished"):
        finished = condition(mc, "Finished")
        if finished.reason == "Succeeded":
            return True
        raise errors.Failed(f"{name_of(mc)} has finished: {finished.message}", finished.reason or "", result_of(mc))
    if is_current(mc) and condition(mc, "Accepted").status == "False":
        raise errors.Rejected(f"{name_of(mc)} is rejected: {condition(mc, 'Accepted').message}", reason_of(mc), result_of(mc))
    if is_current(mc) and reason_of(mc) == "NeverFits":
        raise errors.NeverFits(f"{name_of(mc)} never fits: {condition(mc, 'Admitted').message}; it stays in its queue", "NeverFits",
                               result_of(mc))
    return False


def deleted(last: models.MiniCluster) -> errors.Deleted:
    """Return the error that a MiniCluster was deleted before its end, with its last state."""
    result = dataclasses.replace(result_of(last), state="Deleted", reason="Deleted")
    return errors.Deleted(f"{name_of(last)} was deleted", "Deleted", result)


def has_ended(mc: models.MiniCluster) -> bool:
    """Report whether nothing more happens to a MiniCluster by itself."""
    try:
        return reached(mc, "finished")
    except errors.NotReached as error:
        return not isinstance(error, errors.Deleted)  # what is being deleted still has to go


@dataclass
class Result:
    """What became of a MiniCluster. Times are in UTC, and None until they are known."""

    name: str
    state: str
    reason: str
    message: str
    exit_code: Optional[int]
    """The exit code of the command; None if the command never ran or its exit code is not known."""
    wanted: int
    """The number of brokers asked for."""
    size: int
    """The number of brokers with which the command was started, or that have nodes; 0 before."""
    tasks: int
    nodes: str
    """The nodes of the last attempt by rank, as a hostlist."""
    queue: str
    submitted: Optional[datetime]
    admitted: Optional[datetime]
    """When the MiniCluster got the nodes of its last attempt."""
    started: Optional[datetime]
    """When the command began in the last attempt."""
    finished: Optional[datetime]
    attempt: int
    """The number of the last attempt; 0 before the first."""
    attempts: List[models.Attempt]
    """The attempts before the last one, of which the status keeps ten."""
    useful_node_seconds: int
    lost_node_seconds: int

    @property
    def succeeded(self) -> bool:
        return self.state == "Succeeded"

    @property
    def wait_seconds(self) -> Optional[float]:
        """From the submission to the last admission."""
        return between(self.submitted, self.admitted)

    @property
    def run_seconds(self) -> Optional[float]:
        """For how long the command ran in the last attempt."""
        return between(self.started, self.finished)

    def to_dict(self) -> Dict[str, Any]:
        """Return what `kubectl minicluster experiment` also writes of a run, without what is not known."""
        values = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        values.update(attempts=None, given_up=[a.to_dict() for a in self.attempts],
                      wait_seconds=self.wait_seconds, run_seconds=self.run_seconds)
        out = {_camel(name): format_time(v) if isinstance(v, datetime) else v for name, v in values.items()}
        return {name: value for name, value in out.items() if value not in (None, "", [])}


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def between(start: Optional[datetime], end: Optional[datetime]) -> Optional[float]:
    """Return the seconds between two times; None if one is not known."""
    if start is None or end is None:
        return None
    return max(0.0, (end - start).total_seconds())


def result_of(mc: models.MiniCluster) -> Result:
    """Return what is known of a MiniCluster so far."""
    status = mc.status or models.MiniClusterStatus()
    spec = mc.spec or models.MiniClusterSpec()
    admission = status.admission
    wanted, size = spec.size or 1, 0
    if admission is not None:
        wanted = max(admission.wanted or wanted, admission.size or 0)
        size = (admission.quorum if status.start_time else admission.size) or 0
    told = condition(mc, "Finished") if holds(mc, "Finished") else condition(mc, "JobMiniClusterReady")
    # One that has finished and is being deleted, such as by its TTL, has its outcome.
    state = condition(mc, "JobMiniClusterReady").reason if holds(mc, "Finished") else None
    usage = status.usage or models.Usage()
    return Result(
        name=name_of(mc), state=state or state_of(mc), reason=reason_of(mc), message=told.message or "", exit_code=status.exit_code,
        wanted=wanted, size=size, tasks=status.tasks or 0, nodes=(admission.nodes if admission else None) or "",
        queue=status.queue or "", submitted=parse_time((mc.metadata or {}).get("creationTimestamp")),
        admitted=admission.time if admission else None, started=status.start_time, finished=_end_of(mc),
        attempt=(admission.attempt if admission else None) or 0, attempts=_earlier(status),
        useful_node_seconds=usage.useful_node_seconds or 0, lost_node_seconds=usage.lost_node_seconds or 0)


def _end_of(mc: models.MiniCluster) -> Optional[datetime]:
    if mc.status and mc.status.completion_time:
        return mc.status.completion_time
    return condition(mc, "Finished").last_transition_time if holds(mc, "Finished") else None


def _earlier(status: models.MiniClusterStatus) -> List[models.Attempt]:
    """Return the attempts before that of the admission. An attempt that ended with the MiniCluster is in both."""
    attempts = list(status.attempts or [])
    if attempts and status.admission and attempts[-1].admitted == status.admission.time:
        attempts.pop()
    return attempts


def explain(mc: models.MiniCluster, queue: Optional[models.MiniClusterQueue], now: datetime) -> List[str]:
    """Return sentences that say why a MiniCluster waits, who is ahead, and what would help.

    queue is None if the queue cannot be read, or counts nothing yet.
    """
    lines = [headline(mc)]
    state = state_of(mc)
    if state == "Queued":
        waited = between(parse_time((mc.metadata or {}).get("creationTimestamp")), now) or 0
        lines.append(f"Reason: {reason_of(mc) or 'not known yet'}. It has waited for {seconds_text(waited)}.")
        if queue is not None and reason_of(mc) not in ("Dependency", "Later"):  # these are in no queue
            lines.append(place(mc, queue))
    for holds_here, help_text in _HELP.get(reason_of(mc) if state in ("Queued", "Rejected") else state, []):
        if holds_here(mc):
            lines.append("What would help: " + help_text.format(name=name_of(mc), size=mc.spec.min_size if mc.spec else ""))
    return lines


def _always(_mc: models.MiniCluster) -> bool:
    return True


def _may_shrink(mc: models.MiniCluster) -> bool:
    return bool(mc.spec) and ((mc.spec.min_size or mc.spec.size or 1) > 1)


def _has_no_deadline(mc: models.MiniCluster) -> bool:
    return not mc.spec or mc.spec.deadline_seconds in (None, 0, 31500000)


Help = List[Tuple[Callable[[models.MiniCluster], bool], str]]

_FEWER: Help = [(_may_shrink, "a smaller min_size, if the command can run with fewer brokers.")]
_DEADLINE: Help = [(_has_no_deadline, "deadline_seconds: a MiniCluster with a known end may start before others that wait.")]
_HELP: Dict[str, Help] = {
    "NoRoom": _FEWER + _DEADLINE,
    "WaitingForTurn": _DEADLINE,
    "NeverFits": _FEWER + [(_always, "smaller requests for each broker, or larger nodes.")],
    "NoSuchQueue": [(_always, "a queue that exists.")],
    "TooLargeForQueue": [(_always, "fewer or smaller brokers.")],
    "DeadlineTooLong": [(_always, "a shorter deadline_seconds.")],
    "QuotaExceeded": [(_always, "a larger ResourceQuota, or time, until others in the namespace have ended.")],
    "Dependency": [(_always, "time, or another after.")],
    "Singleton": [(_always, "time: it starts once no other MiniCluster with its key runs; or another singleton.")],
    "Later": [(_always, "time, or another not_before.")],
    "PodRejected": [(_always, "a change of the specification, or of the policy that the message names.")],
    "ObjectRejected": [(_always, "a change of the specification, or of the policy that the message names.")],
    "Unsupported": [(_always, "a change of the specification.")],
    "NameClash": [(_always, "another name, or that the owner of the object deletes it.")],
    "Suspended": [(_always, "kubectl minicluster resume {name}")],
    "BackingOff": [(_always, "kubectl minicluster status {name} says what failed.")],
}


def place(mc: models.MiniCluster, queue: models.MiniClusterQueue) -> str:
    """Say where in its queue a MiniCluster is."""
    status = queue.status or models.MiniClusterQueueStatus()
    name = name_of(queue)  # type: ignore[arg-type]
    metadata = mc.metadata or {}
    for waiting in status.waiting or []:
        if (waiting.namespace, waiting.name) == (metadata.get("namespace"), metadata.get("name")):
            if not waiting.position:
                return f"{status.pending or 1} MiniClusters wait in queue {name}; no position is known."
            return f"It is number {waiting.position} of {status.pending} in queue {name}."
    return f"{status.pending or 0} MiniClusters wait in queue {name}, which lists the first {len(status.waiting or [])}."


def seconds_text(seconds: float) -> str:
    """Write a time as users read it: 3s, 2m5s, 1h4m."""
    whole = int(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60}s"
    return f"{whole // 3600}h{whole % 3600 // 60}m"
