# Copyright The flux-elastic Authors
# SPDX-License-Identifier: Apache-2.0
"""A small API server on the loopback: MiniClusters with a watch, pods with logs, queues. Tests play the manager."""
from __future__ import annotations

import copy
import json
import threading
import time
from datetime import datetime, timedelta, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Callable, Dict, List, Optional
from urllib.parse import parse_qs, urlsplit

from kubernetes import client

NOW = "2026-01-01T00:00:00Z"
DEFAULTS = {"size": 1, "tasks": 1, "deadlineSeconds": 31500000}


def until(condition: Callable[[], Any]) -> None:
    """Wait for a condition. A test that waits in vain fails."""
    end = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < end, "it was waited for in vain"
        time.sleep(0.01)


class FakeAPI:
    """The server. All objects are dictionaries with the names of the API."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.version = 100
        self.miniclusters: Dict[tuple, Dict[str, Any]] = {}
        self.events: List[tuple] = []
        self.pods: List[Dict[str, Any]] = []
        self.logs: Dict[str, str] = {}
        self.queues: Dict[str, Dict[str, Any]] = {}
        self.requests: List[str] = []
        # What answers a request in place of the server: a function of method, path and query.
        self.instead: Optional[Callable[..., Optional[tuple]]] = None
        # What is called with each new MiniCluster.
        self.play: Optional[Callable[[Dict[str, Any]], None]] = None
        self.oldest = 0
        # Whether an object that is deleted stays until delete is called, and whether watches end at once.
        self.lingers = self.ends_watches = False
        # The offset of the zone of the nodes, in hours, and how many lines of a log come until the way breaks off.
        self.zone = 0
        self.breaks_after: Optional[int] = None
        self._active = 0
        self.most_active = 0
        fake = self

        class Handler(_Handler):
            api = fake

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()

    def client(self) -> client.ApiClient:
        configuration = client.Configuration()
        configuration.host = self.url
        configuration.retries = False
        return client.ApiClient(configuration)

    def change(self, kind: str, mc: Dict[str, Any]) -> None:
        """Write a MiniCluster and an event. The caller holds the lock."""
        self.version += 1
        mc["metadata"]["resourceVersion"] = str(self.version)
        key = mc["metadata"]["namespace"], mc["metadata"]["name"]
        if kind == "DELETED":
            self.miniclusters.pop(key, None)
        else:
            self.miniclusters[key] = mc
        self.events.append((self.version, kind, copy.deepcopy(mc)))
        self.changed.notify_all()

    def create(self, mc: Dict[str, Any]) -> Dict[str, Any]:
        with self.changed:
            mc = copy.deepcopy(mc)
            mc["spec"] = {**DEFAULTS, **mc["spec"]}
            mc["metadata"].update(uid=f"uid-{self.version}", creationTimestamp=NOW, generation=1)
            self.change("ADDED", mc)
        if self.play:
            threading.Thread(target=self.play, args=(mc,), daemon=True).start()
        return mc

    def delete(self, name: str, namespace: str = "default") -> None:
        with self.changed:
            self.change("DELETED", copy.deepcopy(self.miniclusters[namespace, name]))
            self.pods = [p for p in self.pods if p["metadata"]["labels"]["flux-framework.org/minicluster"] != name]

    def tell(self, name: str, state: str, reason: str = "", message: str = "", namespace: str = "default", **status: Any) -> None:
        """Write the status of a MiniCluster as the manager would."""
        with self.changed:
            if (namespace, name) not in self.miniclusters:
                return
            mc = copy.deepcopy(self.miniclusters[namespace, name])
            was = mc.get("status", {})
            mc["status"] = {**was, **status, "observedGeneration": mc["metadata"]["generation"],
                            "conditions": conditions(state, reason, message)}
            self.change("MODIFIED", mc)

    def start(self, mc: Dict[str, Any], log: str = "") -> None:
        """Give a MiniCluster nodes and pods, as many as its size, and begin its command."""
        name, namespace, size = mc["metadata"]["name"], mc["metadata"]["namespace"], mc["spec"].get("size", 1)
        with self.changed:
            self.pods += [pod(mc, rank) for rank in range(size)]
            self.logs[f"{name}-0-0-0-abcde"] = log
        self.tell(name, "Running", namespace=namespace, startTime="2026-01-01T00:00:10Z", size=size, tasks=mc["spec"].get("tasks", 1),
                  admission={"attempt": 1, "size": size, "wanted": size, "quorum": size, "nodes": f"node-[0-{size - 1}]",
                             "time": "2026-01-01T00:00:05Z", "lead": f"{mc['metadata']['uid']}-0"})

    def stamp(self, number: int) -> tuple:
        """Return the time of a line of a log, and how a node writes the time."""
        time = datetime(2026, 1, 1, 0, 0, 10 + number, tzinfo=timezone.utc)
        there = time.astimezone(timezone(timedelta(hours=self.zone))).isoformat()
        return time, there[:19] + ".000000000" + there[19:].replace("+00:00", "Z")

    def succeed(self, mc: Dict[str, Any]) -> None:
        self.tell(mc["metadata"]["name"], "Succeeded", "Succeeded", "the command ended with exit code 0",
                  namespace=mc["metadata"]["namespace"], completionTime="2026-01-01T00:00:30Z", exitCode=0)

    def run(self, log: str = "") -> Callable[[Dict[str, Any]], None]:
        """Return what plays a MiniCluster from its start to its success."""
        def play(mc: Dict[str, Any]) -> None:
            self.start(mc, log)
            self.succeed(mc)
        return play


def pod(mc: Dict[str, Any], rank: int, node: Optional[str] = "node") -> Dict[str, Any]:
    """A pod of a broker. Without a node it waits behind its gate."""
    name = mc["metadata"]["name"]
    labels = {"flux-framework.org/minicluster": name, "flux-framework.org/minicluster-uid": mc["metadata"]["uid"],
              "jobset.sigs.k8s.io/replicatedjob-name": "w" if rank else "0",
              "batch.kubernetes.io/job-completion-index": str(max(rank - 1, 0))}
    out = {"metadata": {"name": f"{name}-w-0-{rank - 1}-abcde" if rank else f"{name}-0-0-0-abcde", "labels": labels,
                        "namespace": mc["metadata"]["namespace"], "uid": f"{mc['metadata']['uid']}-{rank}", "creationTimestamp": NOW},
           "spec": {"containers": [{"name": name}]}, "status": {"phase": "Pending"}}
    if node:
        out["spec"]["nodeName"] = f"{node}-{rank}"
        out["status"] = {"phase": "Running", "containerStatuses": [
            {"name": name, "containerID": "containerd://1", "image": "", "imageID": "", "ready": True, "restartCount": 0,
             "state": {"running": {"startedAt": NOW}}}]}
    return out


def conditions(state: str, reason: str, message: str) -> List[Dict[str, Any]]:
    """The conditions of a state."""
    def one(kind: str, status: bool, reason: str) -> Dict[str, Any]:
        return {"type": kind, "status": str(status), "reason": reason, "message": message, "lastTransitionTime": NOW}
    finished = state in ("Succeeded", "Failed")
    up = state in ("Running", "Succeeded", "Failed")
    return [
        one("Accepted", state != "Rejected", reason if state == "Rejected" else "Valid"),
        one("Admitted", up and not finished or state == "Starting", reason if state == "Queued" else "Admitted"),
        one("QuorumReached", up, "QuorumReached"), one("Finished", finished, reason if finished else "Unfinished"),
        one("JobMiniClusterReady", up, state),
    ]


class _Handler(BaseHTTPRequestHandler):
    api: FakeAPI
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        pass

    def answer(self, code: int, body: Any, headers: Optional[Dict[str, str]] = None) -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(code)
        for name, value in {"Content-Type": "application/json", "Content-Length": str(len(data)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def refuse(self, code: int, reason: str, message: str) -> None:
        self.answer(code, {"kind": "Status", "reason": reason, "message": message, "code": code})

    def handle_one(self, method: str) -> None:
        url = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length) or b"null") if length else None
        with self.api.changed:
            self.api.requests.append(f"{method} {self.path}")
            if "watch" not in query:
                self.api._active += 1
                self.api.most_active = max(self.api.most_active, self.api._active)
        try:
            instead = self.api.instead and self.api.instead(method, url.path, query)
            if instead:
                self.answer(*instead)
            else:
                self.serve(method, url.path.strip("/").split("/"), query, body)
        except (BrokenPipeError, ConnectionResetError):
            pass
        finally:
            if "watch" not in query:
                with self.api.changed:
                    self.api._active -= 1

    def do_GET(self) -> None:
        self.handle_one("GET")

    def do_POST(self) -> None:
        self.handle_one("POST")

    def do_PATCH(self) -> None:
        self.handle_one("PATCH")

    def do_DELETE(self) -> None:
        self.handle_one("DELETE")

    def serve(self, method: str, words: List[str], query: Dict[str, str], body: Any) -> None:
        api = self.api
        if words[:2] == ["api", "v1"]:
            return self.serve_core(words[2:], query)
        if words[3] == "miniclusterqueues":
            queue = api.queues.get(words[4])
            return self.answer(200, queue) if queue else self.refuse(404, "NotFound", "not found")
        namespace, name = words[4], words[6] if len(words) > 6 else ""
        mc = api.miniclusters.get((namespace, name))
        if method == "POST":
            key = namespace, body["metadata"]["name"]
            if key in api.miniclusters:
                return self.refuse(409, "AlreadyExists", f'miniclusters "{key[1]}" already exists')
            return self.answer(201, api.create(body))
        if not name and query.get("watch"):
            return self.watch(namespace, query)
        if not name:
            items = [m for (n, _), m in api.miniclusters.items() if n == namespace and selected(m, query.get("labelSelector", ""))]
            return self.answer(200, {"metadata": {"resourceVersion": str(api.version)}, "items": items})
        if mc is None:
            return self.refuse(404, "NotFound", f'miniclusters "{name}" not found')
        if method == "PATCH":
            assert self.headers["Content-Type"] == "application/merge-patch+json", self.headers["Content-Type"]
            with api.changed:
                mc = copy.deepcopy(mc)
                mc["spec"]["size"] = body["spec"]["replicas"]
                api.change("MODIFIED", mc)
        if method == "DELETE":
            return self.delete(namespace, name, (body or {}).get("preconditions", {}).get("uid"))
        return self.answer(200, mc)

    def delete(self, namespace: str, name: str, uid: Optional[str]) -> None:
        api = self.api
        with api.changed:
            mc = copy.deepcopy(api.miniclusters[namespace, name])
            if uid not in (None, mc["metadata"]["uid"]):
                return self.refuse(409, "Conflict", f"Precondition failed: UID in precondition: {uid}")
            if api.lingers:
                mc["metadata"]["deletionTimestamp"] = NOW
                api.change("MODIFIED", mc)
                return self.answer(200, mc)
        api.delete(name, namespace)
        return self.answer(200, {"kind": "Status", "status": "Success", "details": {"name": name, "uid": mc["metadata"]["uid"]}})

    def serve_core(self, words: List[str], query: Dict[str, str]) -> None:
        api = self.api
        if words[0] == "nodes":
            return self.answer(200, {"kind": "NodeList", "apiVersion": "v1", "items": []})
        if words[-1] == "log":
            log = api.logs.get(words[3])
            if log is None:
                return self.refuse(500, "InternalError", "dial tcp 127.0.0.1:10250: connect: connection refused")
            since = datetime.fromisoformat(query.get("sinceTime", NOW).replace("Z", "+00:00"))
            lines = [(stamp + " " if query.get("timestamps") == "true" else "") + line
                     for number, line in enumerate(log.splitlines()) for time, stamp in [api.stamp(number)] if time >= since]
            if query.get("follow") == "true" and api.breaks_after is not None:
                lines, api.breaks_after = lines[:api.breaks_after], None
            return self.answer(200, "".join(line + "\n" for line in lines).encode(), {"Content-Type": "text/plain"})
        items = [p for p in api.pods if p["metadata"]["namespace"] == words[1] and selected(p, query.get("labelSelector", ""))]
        return self.answer(200, {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": items})

    def watch(self, namespace: str, query: Dict[str, str]) -> None:
        api, seen = self.api, int(query["resourceVersion"])
        only = query.get("fieldSelector", "").partition("=")[2]
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        if seen < api.oldest:
            gone = {"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired"}}
            return self.chunk(json.dumps(gone).encode() + b"\n", last=True)
        end = time.monotonic() + float(query.get("timeoutSeconds", 60))
        while time.monotonic() < end and not api.ends_watches:
            with api.changed:
                new = [e for e in api.events if e[0] > seen]
                if not new:
                    api.changed.wait(0.5)
                    continue
            seen = new[-1][0]
            for _, kind, mc in new:
                if mc["metadata"]["namespace"] == namespace and only in ("", mc["metadata"]["name"]):
                    self.chunk(json.dumps({"type": kind, "object": mc}).encode() + b"\n")
        return self.chunk(b"", last=True)

    def chunk(self, data: bytes, last: bool = False) -> None:
        if data:
            self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        if last:
            self.wfile.write(b"0\r\n\r\n")
        self.wfile.flush()


def selected(item: Dict[str, Any], selector: str) -> bool:
    labels = item["metadata"].get("labels") or {}
    pairs = [part.partition("=") for part in selector.split(",") if part]
    return all(labels.get(name) == value for name, _, value in pairs)
