# Copyright The flux-elastic Authors
# SPDX-License-Identifier: Apache-2.0
"""The way to the API server: requests are bounded in number, and repeated while there is trouble that passes."""
from __future__ import annotations

import json
import os
import socket
import ssl
import sys
import threading
import time
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

import urllib3
from kubernetes import client

from . import errors

Query = List[Tuple[str, Any]]


class Limit:
    """How long somebody waits: for timeout seconds, and until stop returns True. stop is called with locks held, and must
    not wait."""

    def __init__(self, timeout: Optional[float] = None, stop: Callable[[], bool] = lambda: False) -> None:
        self.timeout, self._stop = timeout, stop
        self._end = None if timeout is None else time.monotonic() + timeout

    def left(self) -> float:
        """Return for how many seconds to wait before the next look at the limit: at most 1, and none at the end."""
        if self._stop():
            return 0
        return 1 if self._end is None else max(0, min(1, self._end - time.monotonic()))

    def pause(self, seconds: float) -> bool:
        """Wait. It is False if the limit is reached before."""
        end = time.monotonic() + seconds
        while True:
            left = self.left()
            if not left:
                return False
            if time.monotonic() + left >= end:
                time.sleep(max(0, end - time.monotonic()))
                return True
            time.sleep(left)


class Transport:
    """A client of the package kubernetes that threads share.

    Answers are read raw: how a client turns answers into objects differs between versions of the package.
    """

    def __init__(self, api: Any, max_requests: int, patience: float) -> None:
        self.api, self.patience, self._max_requests = api, patience, max_requests
        self._answered = self._told = False
        self._forget()

    def _forget(self) -> None:
        """Begin anew in a process that was forked: it has none of the threads, and must not share connections."""
        self._pid = os.getpid()
        self._slots = threading.BoundedSemaphore(self._max_requests)

    def _check_process(self) -> None:
        if self._pid != os.getpid():
            self.api = client.ApiClient(self.api.configuration)
            self._forget()

    def request(self, method: str, path: str, query: Optional[Query] = None, body: Any = None, content: str = "application/json",
                limit: Optional[Limit] = None) -> Any:
        """Send a request, and return the answer as JSON has it.

        Errors: RequestError; WaitTimeout if the limit is reached before the request is sent, or while the request is
        repeated. A request that was sent has 60 seconds for the answer, whatever the limit is.
        """
        return self._insist(method, lambda: json.loads(self._send(method, path, query, body, content).data), limit or Limit())

    def lines(self, path: str, query: Query, limit: Optional[Limit] = None) -> List[str]:
        """Return all lines of a log that there are. The read is a request like others."""
        return self._insist("GET", lambda: list(self.stream(path, query, 60)), limit or Limit())

    def stream(self, path: str, query: Query, timeout: float) -> Iterator[str]:
        """Send a GET once, and yield the lines of the answer as they come. timeout is the longest time without a line."""
        self._check_process()
        try:
            yield from _lines(self._send("GET", path, query, timeout=timeout))
        except Exception as error:
            raise request_error(error) from error

    def _send(self, method: str, path: str, query: Optional[Query], body: Any = None, content: str = "application/json",
              timeout: float = 60) -> Any:
        return self.api.call_api(
            path, method, query_params=query or [], body=body, header_params={"Accept": "application/json", "Content-Type": content},
            auth_settings=["BearerToken"], _return_http_data_only=True, _preload_content=False, _request_timeout=(10, timeout))

    def _insist(self, method: str, send: Callable[[], Any], limit: Limit) -> Any:
        """Send a request until there is an answer that does not pass."""
        self._check_process()
        end, pause = time.monotonic() + self.patience, 0.5
        while True:
            while not self._slots.acquire(timeout=limit.left()):
                if not limit.left():
                    raise errors.WaitTimeout(f"{self._max_requests} other requests wait for answers of the API server")
            try:
                answer = send()
                self._answered, self._told = True, False
                return answer
            except Exception as error:  # the ways to a token raise anything
                told = request_error(error, self._answered)
                cause = error
            finally:
                self._slots.release()
            self._answered = self._answered or told.status is not None
            pause = max(pause, told.retry_after)
            # The conflict of a DELETE is that of its uid.
            if not told.passes or method == "DELETE" and told.reason == "Conflict" or time.monotonic() + pause > end:
                raise told from cause
            if pause >= 2 and not self._told:
                self._told = True
                print(f"{told}. Trying again for {self.patience:.0f} s.", file=sys.stderr)
            if not limit.pause(pause):
                raise errors.WaitTimeout(str(told), told.reason) from cause
            pause = min(2 * pause, 15)


def _lines(response: Any) -> Iterator[str]:
    rest: List[bytes] = []
    try:
        for chunk in response.stream(amt=None, decode_content=False):
            head, *tail = chunk.split(b"\n")
            rest.append(head)
            for line in tail:
                yield b"".join(rest).decode(errors="replace")
                rest = [line]
        if any(rest):
            yield b"".join(rest).decode(errors="replace")
    finally:
        response.close()
        response.release_conn()


def request_error(error: Exception, answered: bool = True) -> errors.RequestError:
    """Return an error with the sentence of the API server. answered is whether the API server has answered before."""
    if isinstance(error, errors.RequestError):
        return error
    if isinstance(error, client.ApiException) and error.status:
        return _refusal(error)
    if isinstance(error, (urllib3.exceptions.HTTPError, client.ApiException, OSError, ValueError)):
        return errors.RequestError(f"the API server does not answer: {error}", "NoAnswer", passes=not _is_wrong(error, answered))
    return errors.RequestError(f"the client cannot send requests, or read answers: {error!r}", "ClientFailed")


def _refusal(error: client.ApiException) -> errors.RequestError:
    body = error.body.decode(errors="replace") if isinstance(error.body, bytes) else error.body
    try:
        answer: Dict[str, Any] = json.loads(body)
        reason = answer.get("reason") or str(error.reason)
    except (TypeError, ValueError, AttributeError):  # a page of a proxy
        answer, reason = {}, str(error.reason)
    # With a ResourceQuota, many POSTs at once have conflicts.
    passes = error.status == 429 or error.status >= 500 or reason == "Conflict"
    return errors.RequestError(str(answer.get("message") or body or error.reason).strip(), reason, error.status, passes, _delay(error))


def _delay(error: client.ApiException) -> float:
    try:
        return min(float((error.headers or {}).get("Retry-After", 0)), 30)
    except ValueError:
        return 0


def _is_wrong(error: BaseException, answered: bool) -> bool:
    """Report whether the configuration is the cause of an error: a certificate, or a host without an address that never
    answered."""
    if isinstance(error, ssl.SSLCertVerificationError) or isinstance(error, socket.gaierror) and not answered:
        return True
    causes = [error.__cause__, error.__context__, getattr(error, "reason", None), *error.args]
    return any(_is_wrong(cause, answered) for cause in causes if isinstance(cause, BaseException))
