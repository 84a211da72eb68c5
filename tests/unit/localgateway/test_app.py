"""The REST contract over a real socket."""

import gzip
import hashlib
import http.client
import json
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable
from typing import Any

import pytest

from colabhive_mcp.localgateway.catalogue import ENDPOINTS
from colabhive_mcp.localgateway.store import Store

from .conftest import Gateway, Reply, build_form

FOREIGN = {"name": "bulky", "action": "echo", "description": "x" * 2000}


def names(reply: Reply) -> list[str]:
    """The names of the tools of a manifest."""
    return [tool["name"] for tool in reply.json["tools"]]


class TestManifest:
    """GET /mcp/manifest."""

    def test_envelope(self, gateway: Gateway) -> None:
        """The answer has the fields of the contract, and its etag is the header's."""
        reply = gateway.send("GET", "/mcp/manifest")
        body = reply.json
        assert reply.status == 200
        assert body["protocolVersion"] == "2026-01-01"
        assert set(body["server"]) == {"name", "version", "vendor"}
        assert (body["hasMore"], body["nextCursor"]) == (False, None)
        assert body["etag"] == reply.headers["etag"]
        assert reply.headers["etag"].startswith('W/"sha256:')
        assert body["generatedAt"].endswith("Z")
        assert names(reply) == sorted(names(reply))
        assert "echo" in names(reply)

    def test_unchanged_is_304_without_a_body(self, gateway: Gateway) -> None:
        """Sending the ETag back, alone or among others, weak or strong, or a star, is answered 304."""
        etag = gateway.send("GET", "/mcp/manifest").headers["etag"]
        for sent in (etag, etag.removeprefix("W/"), f'"other", {etag}', "*"):
            reply = gateway.send("GET", "/mcp/manifest", If_None_Match=sent)
            assert (reply.status, reply.body, reply.headers["etag"]) == (304, b"", etag)

    def test_changed_is_200(self, gateway: Gateway) -> None:
        """After a change the old ETag brings the new manifest, and undoing the change brings the old ETag back."""
        etag = gateway.send("GET", "/mcp/manifest").headers["etag"]
        gateway.store.register_endpoint({"name": "extra", "action": "echo"})
        changed = gateway.send("GET", "/mcp/manifest", If_None_Match=etag)
        assert changed.status == 200
        assert "extra" in names(changed)
        gateway.store.remove_endpoint("extra")
        assert gateway.send("GET", "/mcp/manifest", If_None_Match=etag).status == 304

    def test_change_by_another_process(self, gateway: Gateway) -> None:
        """What another process registers or revokes holds from the next request on."""
        before = gateway.send("GET", "/mcp/manifest")
        script = (
            "import sys; from colabhive_mcp.localgateway.store import Store\n"
            "store = Store(sys.argv[1])\n"
            "store.register_endpoint({'name': 'foreign', 'action': 'echo', 'inputSchema': {'type': 'int'}})\n"
            "store.revoke_key(sys.argv[2])\n"
        )
        doomed = gateway.store.create_key()
        subprocess.run([sys.executable, "-W", "error", "-c", script, gateway.path, doomed], check=True, timeout=30)
        after = gateway.send("GET", "/mcp/manifest", If_None_Match=before.headers["etag"])
        assert set(names(after)) - set(names(before)) == {"foreign"}
        assert gateway.invoke("foreign", {"a": 1}).json["result"] == {"a": 1}
        assert gateway.send("GET", "/mcp/manifest", key=doomed).status == 401

    def test_each_key_has_its_own_view(self, gateway: Gateway) -> None:
        """Accounts that see different tools get different ETags, and none sees another's private tool."""
        other = gateway.store.create_key(account="other")
        shared = gateway.send("GET", "/mcp/manifest", key=other)
        assert shared.headers["etag"] == gateway.send("GET", "/mcp/manifest").headers["etag"]
        gateway.store.register_endpoint({"name": "mine", "action": "echo", "visibility": "private"})
        own, foreign = gateway.send("GET", "/mcp/manifest"), gateway.send("GET", "/mcp/manifest", key=other)
        assert set(names(own)) - set(names(foreign)) == {"mine"}
        assert foreign.headers["etag"] == shared.headers["etag"] != own.headers["etag"]
        assert gateway.send("GET", "/mcp/manifest/mine", key=other).status == 404
        assert gateway.invoke("mine", key=other).status == 404

    @pytest.mark.parametrize("accept", ["gzip", "deflate, GZIP;q=0.5", "*", "br;q=0, *;q=1.0"])
    def test_gzip_where_it_is_accepted(self, gateway: Gateway, accept: str) -> None:
        """A large manifest comes compressed to who accepts it, and it is the same manifest."""
        plain, zipped = (
            gateway.send("GET", "/mcp/manifest"),
            gateway.send("GET", "/mcp/manifest", Accept_Encoding=accept),
        )
        assert zipped.headers["content-encoding"] == "gzip"
        assert len(zipped.body) < len(plain.body) / 2
        assert gzip.decompress(zipped.body) == plain.body
        assert "Accept-Encoding" in zipped.headers["vary"]

    @pytest.mark.parametrize("accept", ["identity", "gzip;q=0", "gzip; q=0.000, *", "*;q=0", ""])
    def test_no_gzip_where_it_is_refused(self, gateway: Gateway, accept: str) -> None:
        """Who does not accept gzip gets none."""
        assert "content-encoding" not in gateway.send("GET", "/mcp/manifest", Accept_Encoding=accept).headers

    def test_small_manifest_is_not_compressed(self, gateway: Gateway) -> None:
        """A body of up to a KiB is sent as it is."""
        for entry in ENDPOINTS:
            gateway.store.remove_endpoint(entry["name"])
        assert "content-encoding" not in gateway.send("GET", "/mcp/manifest", Accept_Encoding="gzip").headers

    def test_pages_on_request(self, gateway: Gateway) -> None:
        """With a limit the pages hold every tool once, in order, and end."""
        whole, found, query = names(gateway.send("GET", "/mcp/manifest")), [], "?limit=4"
        while query:
            body = gateway.send("GET", f"/mcp/manifest{query}").json
            assert len(body["tools"]) <= 4
            assert body["hasMore"] == (body["nextCursor"] is not None)
            found += [tool["name"] for tool in body["tools"]]
            query = f"?limit=4&cursor={body['nextCursor']}" if body["hasMore"] else ""
        assert found == whole

    def test_forced_pages(self, start_gateway: Callable[..., Gateway]) -> None:
        """With a page size the manifest comes in pages without being asked, and a limit has its own way."""
        size = len(ENDPOINTS) - 4
        gateway = start_gateway(page_size=size)
        first = gateway.send("GET", "/mcp/manifest")
        assert (len(first.json["tools"]), first.json["hasMore"]) == (size, True)
        second = gateway.send("GET", f"/mcp/manifest?cursor={first.json['nextCursor']}")
        assert (len(second.json["tools"]), second.json["hasMore"]) == (4, False)
        assert len(gateway.send("GET", "/mcp/manifest?limit=100").json["tools"]) == len(ENDPOINTS)

    def test_page_that_stops_being_the_last_changes_its_etag(self, gateway: Gateway) -> None:
        """The ETag of a page covers whether another page follows."""
        path = f"/mcp/manifest?limit={len(ENDPOINTS)}"
        etag = gateway.send("GET", path).headers["etag"]
        gateway.store.register_endpoint({"name": "zz", "action": "echo"})
        assert gateway.send("GET", path, If_None_Match=etag).status == 200

    def test_cursor_of_a_tool_that_is_gone(self, gateway: Gateway) -> None:
        """A cursor keeps its place in the order when its tool is removed meanwhile."""
        first = gateway.send("GET", "/mcp/manifest?limit=2").json
        gateway.store.remove_endpoint(first["tools"][-1]["name"])
        second = gateway.send("GET", f"/mcp/manifest?limit=2&cursor={first['nextCursor']}")
        assert names(second) == ["hash-embedding", "notes-append"]

    @pytest.mark.parametrize(
        ("query", "status"), [("cursor=junk", 400), ("cursor=%C3%A4", 400), ("limit=0", 422), ("limit=x", 422)]
    )
    def test_bad_pages(self, gateway: Gateway, query: str, status: int) -> None:
        """A cursor of somebody else's and an impossible limit are refused."""
        assert gateway.send("GET", f"/mcp/manifest?{query}").status == status

    def test_single_manifest(self, gateway: Gateway) -> None:
        """One tool's manifest is the entry of the list, and 404 where there is none."""
        entry = next(tool for tool in gateway.send("GET", "/mcp/manifest").json["tools"] if tool["name"] == "chat")
        assert gateway.send("GET", "/mcp/manifest/chat").json == entry
        missing = gateway.send("GET", "/mcp/manifest/nothing")
        assert (missing.status, list(missing.json)) == (404, ["detail"])

    def test_slug_that_needs_encoding(self, gateway: Gateway) -> None:
        """A slug of any characters is reached percent-encoded."""
        gateway.store.register_endpoint({"name": "a/b é:1", "action": "echo"})
        assert gateway.send("GET", "/mcp/manifest/a%2Fb%20%C3%A9%3A1").json["name"] == "a/b é:1"
        assert gateway.invoke("a%2Fb%20%C3%A9%3A1", {"text": "x"}).json["result"] == "x"


class TestKeys:
    """X-API-Key."""

    @pytest.mark.parametrize("path", ["/mcp/manifest", "/mcp/manifest/echo", "/invocations/x"])
    @pytest.mark.parametrize("key", [None, "hive_unknown"])
    def test_refused_keys(self, gateway: Gateway, path: str, key: str | None) -> None:
        """Without a key, or with an unknown one, every route answers 401 with words that do not repeat the key."""
        reply = gateway.send("GET", path, key=key)
        assert (reply.status, list(reply.json)) == (401, ["detail"])
        assert b"hive_unknown" not in reply.body

    def test_revoked_key(self, gateway: Gateway) -> None:
        """A revoked key is refused from the next request on."""
        assert gateway.invoke("echo", {"text": "x"}).status == 200
        gateway.store.revoke_key(gateway.key)
        assert gateway.invoke("echo", {"text": "x"}).status == 401

    def test_health_needs_no_key(self, gateway: Gateway) -> None:
        """The health route answers whoever asks."""
        assert gateway.send("GET", "//health", key=None).json == {"status": "ok"}

    @pytest.mark.parametrize(
        ("method", "path", "status"),
        [
            ("GET", "/nothing", 404),
            ("GET", "//", 404),
            ("DELETE", "/mcp/manifest", 405),
            ("GET", "/actions/a:invoke", 405),
        ],
    )
    def test_unknown_routes(self, gateway: Gateway, method: str, path: str, status: int) -> None:
        """An unknown path is 404, a known one with another method is 405 and says which it takes."""
        reply = gateway.send(method, path)
        assert reply.status == status
        assert ("allow" in reply.headers) == (status == 405)


class TestInvoke:
    """POST /actions/{slug}:invoke and GET /invocations/{id}."""

    def test_answer(self, gateway: Gateway) -> None:
        """A warm action that is waited for answers with its result in the form of the contract."""
        answer = gateway.invoke("echo", {"text": "é漢🎉\ud83d"}).json
        assert uuid.UUID(answer["invocation_id"])
        assert set(answer["metrics"]) == {"run_ms"}
        assert {
            key: answer[key] for key in ("action_slug", "status", "model_state", "result", "error", "poll_url")
        } == {
            "action_slug": "echo",
            "status": "succeeded",
            "model_state": "warm",
            "result": "é漢🎉\ud83d",
            "error": None,
            "poll_url": f"/api/builder/v1/invocations/{answer['invocation_id']}",
        }

    def test_report(self, gateway: Gateway) -> None:
        """An invocation that was not waited for can be followed to its end."""
        answer = gateway.invoke("echo", {"text": "x"}, sync=False).json
        assert answer["status"] in {"queued", "running", "succeeded"}
        report = gateway.finished(answer["invocation_id"])
        assert (report["status"], report["status_detail"], report["result"]) == ("succeeded", None, "x")
        assert report["created_at"] <= report["started_at"] <= report["finished_at"]

    def test_failed_action(self, gateway: Gateway) -> None:
        """An action that fails is a failed invocation with a code and words."""
        gateway.store.register_endpoint({"name": "fail", "action": "fail"})
        answer = gateway.invoke("fail", {"code": "no_luck", "message": "Not today."}).json
        assert (answer["status"], answer["result"]) == ("failed", None)
        assert answer["error"] == {"code": "no_luck", "message": "Not today."}

    def test_unknown_action(self, gateway: Gateway) -> None:
        """A slug without an endpoint is 404, and an endpoint without a known action fails when it is run."""
        assert gateway.invoke("nothing").status == 404
        gateway.store.register_endpoint({"name": "hollow", "action": "no-such"})
        assert gateway.invoke("hollow").json["error"]["code"] == "unknown_action"

    def test_operation_is_not_invoked(self, gateway: Gateway) -> None:
        """An operation with an endpoint block says how it is called instead."""
        reply = gateway.invoke("training.merge")
        assert reply.status == 409
        assert "POST /training/merges" in reply.json["detail"]["message"]

    @pytest.mark.parametrize(
        ("body", "loc"),
        [
            ({"input": {}}, ["body", "input", "text"]),
            ({"input": {"text": 5}}, ["body", "input", "text"]),
            ({"input": []}, ["body", "input"]),
            ({"input": {"text": "x"}, "sync": "yes"}, ["body", "sync"]),
            ({"input": {"text": "x"}, "sync": True, "sync_timeout_s": 0}, ["body", "sync_timeout_s"]),
            ({"input": {"text": "x"}, "sync": True, "sync_timeout_s": 301}, ["body", "sync_timeout_s"]),
            ([], ["body"]),
            (b"{", ["body"]),
            (b'{"input": {"text": NaN}}', ["body"]),
            (b'{"input": {"text": 1e999}}', ["body"]),
            (b'{"input": ' + b"[" * 100_000, ["body"]),
            (b"\xff", ["body"]),
        ],
    )
    def test_wrong_input(self, gateway: Gateway, body: Any, loc: list[str]) -> None:
        """What the request gets wrong is a 422 in the list form, with the path of each fault."""
        reply = gateway.send("POST", "/actions/echo:invoke", body)
        assert reply.status == 422
        assert [fault["loc"] for fault in reply.json["detail"]] == [loc]
        assert reply.json["detail"][0]["msg"]

    def test_foreign_invocation(self, gateway: Gateway) -> None:
        """Another account's invocation does not exist."""
        answer = gateway.invoke("echo", {"text": "x"}).json
        other = gateway.store.create_key(account="other")
        assert gateway.send("GET", f"/invocations/{answer['invocation_id']}", key=other).status == 404
        assert gateway.send("GET", "/invocations/nothing").status == 404

    def test_large_input_and_result(self, gateway: Gateway) -> None:
        """Megabytes go in and come out whole."""
        text = "b" * (3 * 1024 * 1024)
        assert gateway.invoke("echo", {"text": text}).json["result"] == text

    def test_any_json_can_be_had_as_a_result(self, gateway: Gateway) -> None:
        """Input without a text is echoed whole, so that every shape of result can be asked for."""
        gateway.store.register_endpoint({"name": "shape", "action": "echo"})
        shape = {"choices": [{"message": {"role": "assistant", "content": None}}], "n": 2**63 + 1, "x": 0.1}
        assert gateway.invoke("shape", shape).json["result"] == shape

    def test_our_own_fault_is_a_500_in_json(
        self, gateway: Gateway, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        """What fails in the gateway itself is logged, and answered as JSON without a trace."""
        monkeypatch.setattr(gateway.store, "endpoint", None)
        reply = gateway.invoke("echo", {"text": "x"})
        assert (reply.status, reply.json) == (500, {"error": {"code": "internal", "message": "The gateway failed."}})
        assert "NoneType" in caplog.text


class TestIdempotency:
    """Idempotency-Key."""

    def test_repeat_gives_the_first(self, gateway: Gateway) -> None:
        """A repeated POST answers with the first invocation and runs nothing, whatever it waits."""
        first = gateway.invoke("notes-append", {"line": "a"}, Idempotency_Key="k").json
        again = gateway.invoke("notes-append", {"line": "a"}, sync=False, Idempotency_Key="k").json
        assert again == first
        assert gateway.store.notes() == ["a"]

    def test_sixteen_at_once(self, gateway: Gateway) -> None:
        """Repeats at the same moment all answer with the one finished invocation."""
        barrier, answers = threading.Barrier(16), []

        def invoke() -> None:
            barrier.wait(10)
            answers.append(gateway.invoke("notes-append", {"line": "a"}, Idempotency_Key="k").json)

        threads = [threading.Thread(target=invoke) for _ in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert len(answers) == 16
        assert {answer["invocation_id"] for answer in answers} == {answers[0]["invocation_id"]}
        assert [answer["status"] for answer in answers] == ["succeeded"] * 16
        assert gateway.store.notes() == ["a"]

    @pytest.mark.parametrize(("slug", "arguments"), [("echo", {"text": "b"}), ("text-stats", {"text": "a"})])
    def test_key_of_another_request(self, gateway: Gateway, slug: str, arguments: dict[str, Any]) -> None:
        """A key that came with another input or action is a conflict."""
        gateway.invoke("echo", {"text": "a"}, Idempotency_Key="k")
        reply = gateway.invoke(slug, arguments, Idempotency_Key="k")
        assert (reply.status, reply.json["detail"]["code"]) == (409, "idempotency_conflict")

    def test_keys_belong_to_accounts(self, gateway: Gateway) -> None:
        """The same key of another account starts an invocation of its own."""
        other = gateway.store.create_key(account="other")
        first = gateway.invoke("echo", {"text": "a"}, Idempotency_Key="k").json
        foreign = gateway.invoke("echo", {"text": "a"}, Idempotency_Key="k", key=other).json
        assert first["invocation_id"] != foreign["invocation_id"]


class TestMerge:
    """POST /training/merges."""

    def test_job_and_version(self, gateway: Gateway) -> None:
        """Each merge makes a job and the next version of its model."""
        body = {"name": "hive", "sources": ["chat", "text-stats"], "weights": [1, 2], "method": "slerp"}
        first, second = (gateway.send("POST", "/training/merges", body) for _ in range(2))
        assert (first.status, second.status) == (202, 202)
        assert (first.json["status"], first.json["operation"]) == ("queued", "merge")
        assert (first.json["version"], second.json["version"]) == (1, 2)
        assert uuid.UUID(first.json["job_id"])

    def test_repeat_gives_the_first(self, gateway: Gateway) -> None:
        """A repeated merge is the first job, and its key is good for nothing else."""
        body = {"name": "hive", "sources": ["chat", "echo"]}
        first = gateway.send("POST", "/training/merges", body, Idempotency_Key="k")
        assert gateway.send("POST", "/training/merges", body, Idempotency_Key="k").json == first.json
        assert gateway.send("POST", "/training/merges", {**body, "name": "x"}, Idempotency_Key="k").status == 409
        assert gateway.invoke("echo", {"text": "x"}, Idempotency_Key="k").status == 409

    @pytest.mark.parametrize(
        ("change", "loc"),
        [
            ({"name": 5}, ["body", "name"]),
            ({"sources": ["chat"]}, ["body", "sources"]),
            ({"sources": ["chat", "nothing"]}, ["body", "sources", 1]),
            ({"sources": ["chat", 5]}, ["body", "sources", 1]),
            ({"weights": [1, 2, 3]}, ["body", "weights"]),
            ({"method": "stir"}, ["body", "method"]),
            ({"speed": 1}, ["body", "speed"]),
        ],
    )
    def test_wrong_merges(self, gateway: Gateway, change: dict[str, Any], loc: list[Any]) -> None:
        """What a merge gets wrong is named by its path."""
        reply = gateway.send("POST", "/training/merges", {"name": "hive", "sources": ["chat", "echo"], **change})
        assert (reply.status, [fault["loc"] for fault in reply.json["detail"]]) == (422, [loc])


TABLE = b"text,label\nBees dance,1\nHives hum,0\n"


class TestRetrain:
    """POST /training/models/{model}/versions."""

    def retrain(self, gateway: Gateway, model: str = "chat", table: bytes | None = TABLE, **fields: str) -> Reply:
        """Send a form with *table* as its file and *fields* beside it."""
        body, kind = build_form({"label_column": "label", **fields}, {} if table is None else {"dataset": table})
        return gateway.send("POST", f"/training/models/{model}/versions", body, Content_Type=kind)

    def test_job_version_and_table(self, gateway: Gateway) -> None:
        """A retraining makes a job and the next version of its model, and tells what the table holds."""
        first, second = self.retrain(gateway), self.retrain(gateway, epochs="5")
        assert (first.status, second.status) == (202, 202)
        assert (first.json["operation"], first.json["model"]) == ("retrain", "chat")
        assert (first.json["version"], second.json["version"]) == (1, 2)
        assert first.json["dataset"] == {
            "name": "dataset.bin",
            "bytes": len(TABLE),
            "sha256": hashlib.sha256(TABLE).hexdigest(),
            "columns": ["text", "label"],
            "rows": 2,
        }

    def test_repeat_gives_the_first(self, gateway: Gateway) -> None:
        """The same form under the same key is the first job, another form is a conflict."""
        replies = []
        for table in (TABLE, TABLE, TABLE + b"x,1\n"):
            body, kind = build_form({"label_column": "label"}, {"dataset": table})
            path = "/training/models/chat/versions"
            replies.append(gateway.send("POST", path, body, Content_Type=kind, Idempotency_Key="k"))
        assert [reply.status for reply in replies] == [202, 202, 409]
        assert replies[0].json == replies[1].json

    @pytest.mark.parametrize(
        ("wrong", "loc"),
        [
            ({"table": None}, ["body", "dataset"]),
            ({"table": b"\xff\xfe"}, ["body", "dataset"]),
            ({"table": b""}, ["body", "dataset"]),
            ({"label_column": "price"}, ["body", "label_column"]),
            ({"epochs": "many"}, ["body", "epochs"]),
            ({"epochs": "1000"}, ["body", "epochs"]),
            ({"speed": "1"}, ["body", "speed"]),
        ],
    )
    def test_wrong_forms(self, gateway: Gateway, wrong: dict[str, Any], loc: list[Any]) -> None:
        """What a form gets wrong is named by its path."""
        reply = self.retrain(gateway, **wrong)
        assert (reply.status, [fault["loc"] for fault in reply.json["detail"]]) == (422, [loc])

    def test_what_is_no_form(self, gateway: Gateway) -> None:
        """JSON is refused, and so is a model that is not there."""
        assert gateway.send("POST", "/training/models/chat/versions", {"a": 1}).status == 422
        assert self.retrain(gateway, "nothing").status == 404


def test_connection_is_kept(gateway: Gateway) -> None:
    """Calls, polls and errors leave the connection open for the next request."""
    connection = http.client.HTTPConnection(*gateway.address, timeout=10)
    headers, ports = {"X-API-Key": gateway.key}, set()
    for _ in range(3):
        for path, body in (("/api/builder/v1/actions/echo:invoke", {"input": {}}), ("/health", None)):
            connection.request("POST" if body else "GET", path, json.dumps(body) if body else None, headers)
            connection.getresponse().read()
            ports.add(connection.sock.getsockname()[1])
    connection.close()
    assert len(ports) == 1


def test_list_of_thousands(gateway: Gateway) -> None:
    """Three thousand tools are served whole, and unchanged they cost no derivation."""
    with Store(gateway.path) as store:
        for number in range(300):
            store.register_endpoint({**FOREIGN, "name": f"bulky-{number}"})
    reply = gateway.send("GET", "/mcp/manifest", Accept_Encoding="gzip")
    assert len(reply.json["tools"]) == 300 + len(ENDPOINTS)
    derived = gateway.store.manifest_texts
    gateway.store.manifest_texts = None  # type: ignore[method-assign, assignment]
    assert gateway.send("GET", "/mcp/manifest").json == reply.json
    gateway.store.manifest_texts = derived  # type: ignore[method-assign]
