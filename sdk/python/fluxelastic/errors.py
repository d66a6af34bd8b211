# Copyright The flux-elastic Authors
# SPDX-License-Identifier: Apache-2.0
"""What can go wrong. Every error has the reason of the status or of the API server, and a sentence."""
from __future__ import annotations

from typing import Any, Optional


def printable(text: str) -> str:
    """Return a text for a terminal: control characters, with which a text could change the terminal, are written out."""
    return "".join(c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape", "replace").decode() for c in text)


class Error(Exception):
    """The base of all errors of this package."""

    def __init__(self, message: str, reason: str = "") -> None:
        super().__init__(printable(message))
        self.message = printable(message)
        self.reason = reason

    def __reduce__(self) -> Any:  # so that an error passes from one process to another
        return _again, (type(self), self.args, vars(self))


def _again(of: type, args: Any, attributes: Any) -> Error:
    error: Error = of.__new__(of, *args)
    error.args = args
    vars(error).update(attributes)
    return error


class RequestError(Error):
    """The API server refused a request, or did not answer. status is that of HTTP; None without an answer.

    passes is True if the same request may succeed later. retry_after is after how many seconds the API server wants to
    be asked again.
    """

    def __init__(self, message: str, reason: str = "", status: Optional[int] = None, passes: bool = False, retry_after: float = 0) -> None:
        super().__init__(message, reason)
        self.status, self.passes, self.retry_after = status, passes, retry_after


class NameTaken(Error):
    """There is a MiniCluster of this name with another specification."""


class NotReached(Error):
    """The base of errors of a MiniCluster that does not reach a goal by itself.

    result is what is known of the MiniCluster; None if nothing is known.
    """

    def __init__(self, message: str, reason: str = "", result: Any = None) -> None:
        super().__init__(message, reason)
        self.result = result


class Rejected(NotReached):
    """The specification cannot be carried out. reason is that of the condition Accepted, such as PodRejected."""


class NeverFits(NotReached):
    """Not even the empty cluster has room. The MiniCluster stays in its queue."""


class Failed(NotReached):
    """The MiniCluster has finished without success. reason is that of the condition Finished, such as CommandFailed.

    exit_code is that of the command, or None if the command never ran or its exit code is not known.
    """

    @property
    def exit_code(self) -> Optional[int]:
        return self.result.exit_code if self.result is not None else None


class Deleted(NotReached):
    """The MiniCluster is gone, or somebody has deleted the MiniCluster, before the command ended."""


class WaitTimeout(Error, TimeoutError):
    """The MiniCluster did not get there in time. reason is why the MiniCluster waits, if it does."""


class NoLog(Error):
    """There is no log: no pod, or a simulated node."""
