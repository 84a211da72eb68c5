"""The client against real sockets: what it sends, what it makes of answers, and how it keeps connections."""

from __future__ import annotations

import gzip
import json
import tracemalloc
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from typing import Any, Self

import pytest

from colabhive_mcp.errors import BadAnswer, Cancelled, GatewayError, GatewayUnreachable, KeyRefused, ToolError
from colabhive_mcp.gateway.client import GatewayClient
from colabhive_mcp.gateway.operations import FilePart, OperationRequest
from tests.harness.processes import wait_until
from tests.unit.gateway.conftest import KEY, Bench, MakeBench, Time, build_options
from tests.unit.gateway.scripted import HANG_UP, RESET, SILENCE, ScriptedServer, Step, answer, build_pages

PREFIX = "/api/builder/v1"
DONE = {"invocation_id": "i-1", "status": "succeeded", "result": {"text": "hi"}}
MANIFEST = {"protocolVersion": "2026-01-01", "tools": [{"name": "echo"}]}
GET = OperationRequest("GET", "/jobs")
POST = OperationRequest("POST", "/jobs", json={}, has_body=True)


class TestWhatIsSent:
    """Every request as the contract gives it."""

    def test_every_request_carries_key_agent_and_account(self, bench: MakeBench) -> None:
        """Key, agent and account travel with each kind of request, and gzip is welcome."""
        run = bench(answer(MANIFEST), answer(DONE), answer(DONE), answer({}), account_id="acc-7")
        run.fetch_manifest()
        run.invoke()
        run.fetch_invocation()
        run.perform(POST)
        for seen in run.server.seen:
            assert seen.headers["X-API-Key"] == KEY
            assert seen.headers["User-Agent"] == "colabhive-mcp/0.0.test"
            assert seen.headers["X-Account-ID"] == "acc-7"
            assert seen.headers["Accept-Encoding"] == "gzip"
        assert run.server.targets == [
            f"{PREFIX}/mcp/manifest",
            f"{PREFIX}/actions/echo:invoke",
            f"{PREFIX}/invocations/i-1",
            f"{PREFIX}/jobs",
        ]

    def test_no_account_is_sent_when_none_is_set(self, bench: MakeBench) -> None:
        """``X-Account-ID`` is sent only when the setting is given."""
        run = bench(answer(DONE))
        run.fetch_invocation()
        assert run.server.seen[0].headers["X-Account-ID"] is None

    def test_invoke_asks_for_the_wait_and_names_its_key(self, bench: MakeBench) -> None:
        """The body holds input and wait, and the idempotency key goes along."""
        run = bench(answer(DONE))
        assert run.invoke(arguments={"text": "ä한\ud83d"}, sync_timeout=2.5) == DONE
        seen = run.server.seen[0]
        assert seen.json == {"input": {"text": "ä한\ud83d"}, "sync": True, "sync_timeout_s": 3}
        assert (seen.method, seen.headers["Content-Type"]) == ("POST", "application/json")
        assert seen.headers["Idempotency-Key"] == "key-1"

    @pytest.mark.parametrize("base", ["", "/", "/gw/", "/a%20b"])
    def test_the_prefix_follows_the_address(self, bench: MakeBench, base: str) -> None:
        """An address may have a path of its own, with or without a slash at its end."""
        run = bench(answer(DONE))
        other = bench(answer(DONE), api_url=run.server.url + base)
        other.fetch_invocation()
        assert run.server.targets == [f"{base.rstrip('/')}{PREFIX}/invocations/i-1"]

    @pytest.mark.parametrize(
        ("text", "segment"),
        [
            ("a/b", "a%2Fb"),
            ("../../keys", "..%2F..%2Fkeys"),
            ("a?b#c%d", "a%3Fb%23c%25d"),
            ("ä 한", "%C3%A4%20%ED%95%9C"),
            ("a\r\nX-Evil: 1", "a%0D%0AX-Evil%3A%201"),
            ("\ud83d", "%3F"),
            ("https://evil.example/", "https%3A%2F%2Fevil.example%2F"),
        ],
    )
    def test_slugs_and_ids_stay_one_segment(self, bench: MakeBench, text: str, segment: str) -> None:
        """Whatever a slug or an id holds, it is one segment of the path."""
        run = bench(answer(DONE))
        run.invoke(text)
        run.fetch_invocation(text)
        assert run.server.targets == [f"{PREFIX}/actions/{segment}:invoke", f"{PREFIX}/invocations/{segment}"]

    @pytest.mark.parametrize("invocation_id", ["", ".", ".."])
    def test_ids_that_step_are_not_asked_for(self, bench: MakeBench, invocation_id: str) -> None:
        """An id that would name another path is refused and nothing is sent."""
        run = bench(answer(DONE))
        with pytest.raises(BadAnswer):
            run.fetch_invocation(invocation_id)
        assert run.server.seen == []

    def test_a_slug_of_dots_is_sent(self, bench: MakeBench) -> None:
        """A slug is followed by ``:invoke``, so that dots alone step nowhere."""
        run = bench(answer(DONE))
        run.invoke("..")
        assert run.server.targets == [f"{PREFIX}/actions/..:invoke"]

    def test_arguments_that_json_cannot_carry_are_refused(self, bench: MakeBench) -> None:
        """A number that is none stops the call before it is sent."""
        run = bench(answer(DONE))
        with pytest.raises(ToolError):
            run.invoke(arguments={"x": float("nan")})
        assert run.server.seen == []

    def test_an_operation_is_sent_as_built(self, bench: MakeBench) -> None:
        """Query, headers and body of an operation arrive as they were given, and our headers win over its own."""
        run = bench(answer({"id": 1}))
        request = OperationRequest(
            "PATCH",
            "/jobs/a%2Fb",
            (("tag", "x y"), ("tag", "ü&")),
            {"x-trace": "t", "user-agent": "evil", "accept": "text/csv"},
            json=[1],
            has_body=True,
        )
        assert run.perform(request) == {"id": 1}
        seen = run.server.seen[0]
        assert (seen.method, seen.target) == ("PATCH", f"{PREFIX}/jobs/a%2Fb?tag=x%20y&tag=%C3%BC%26")
        assert seen.json == [1]
        assert (seen.headers["X-Trace"], seen.headers["Accept"]) == ("t", "text/csv")
        assert seen.headers.get_all("User-Agent") == ["colabhive-mcp/0.0.test"]

    def test_files_travel_as_multipart(self, bench: MakeBench) -> None:
        """Fields and files become parts, and no name of a part can break out of its header."""
        run = bench(answer({}))
        part = FilePart('a"\r\nX: y', "d.csv", b"1;\x00\xff", "text/csv")
        run.perform(OperationRequest("POST", "/f", fields=(("note", "ü"),), files=(part,)))
        seen = run.server.seen[0]
        kind, _, boundary = seen.headers["Content-Type"].partition("; boundary=")
        assert kind == "multipart/form-data"
        note, file = seen.body.split(f"--{boundary}".encode())[1:3]
        assert note.endswith('name="note"\r\n\r\nü\r\n'.encode())
        assert b'name="a%22%0D%0AX: y"; filename="d.csv"\r\nContent-Type: text/csv\r\n\r\n1;\x00\xff\r\n' in file

    @pytest.mark.parametrize(("method", "length"), [("POST", "0"), ("GET", None), ("DELETE", None)])
    def test_a_request_without_a_body_has_none(self, bench: MakeBench, method: str, length: str | None) -> None:
        """No body is sent where an operation has none."""
        run = bench(answer({}))
        run.perform(OperationRequest(method, "/x"))
        seen = run.server.seen[0]
        assert (seen.method, seen.body, seen.headers["Content-Length"]) == (method, b"", length)


class TestManifest:
    """Reading the manifest: conditions and pages."""

    def test_the_etag_is_kept_and_sent_back_as_received(self, bench: MakeBench) -> None:
        """A weak ETag goes back byte for byte, and 304 is no manifest."""
        etag = 'W/"sha256:ab é"'
        run = bench(answer(MANIFEST, headers={"ETag": etag}), Step(b"HTTP/1.1 304 Not Modified\r\n\r\n"))
        first = run.fetch_manifest()
        assert (first.etag, first.pages, first.document) == (etag, 1, MANIFEST)
        assert first.size == len(json.dumps(MANIFEST))
        assert run.fetch_manifest(first.etag) is None
        assert run.server.seen[0].headers["If-None-Match"] is None
        assert run.server.seen[1].headers["If-None-Match"] == etag
        assert run.server.seen[1].connection == run.server.seen[0].connection

    @pytest.mark.parametrize("etag", ["a\r\nX-Evil: 1", "한", ""])
    def test_an_impossible_etag_is_not_sent(self, bench: MakeBench, etag: str) -> None:
        """What no gateway can have sent makes no condition."""
        run = bench(answer(MANIFEST))
        assert run.fetch_manifest(etag).document == MANIFEST
        assert run.server.seen[0].headers["If-None-Match"] is None
        assert run.server.seen[0].headers["X-Evil"] is None

    def test_unchanged_without_a_condition_is_an_error(self, bench: MakeBench) -> None:
        """304 answers only a request that asked for it."""
        run = bench(Step(b"HTTP/1.1 304 Not Modified\r\n\r\n"))
        with pytest.raises(BadAnswer, match="304"):
            run.fetch_manifest()

    def test_pages_are_joined(self, bench: MakeBench) -> None:
        """All pages make one manifest, whose envelope is that of the first and says that it is whole."""
        run = bench(*build_pages([[1, 2], [3], [], [4]]))
        manifest = run.fetch_manifest('W/"x"')
        assert manifest.document == {"tools": [1, 2, 3, 4], "hasMore": False, "nextCursor": None}
        assert manifest.pages == 4
        assert manifest.size == sum(len(step.data.partition(b"\r\n\r\n")[2]) for step in run.server.steps)
        assert run.server.targets[1:] == [f"{PREFIX}/mcp/manifest?cursor=c{turn}" for turn in range(3)]
        assert [seen.headers["If-None-Match"] for seen in run.server.seen] == ['W/"x"', None, None, None]

    @pytest.mark.parametrize(
        "page",
        [
            {"tools": [], "hasMore": True, "nextCursor": None},
            {"tools": [], "hasMore": True},
            {"tools": [], "nextCursor": 7},
            {"tools": {}},
            {"tools": None},
            {},
            [],
            "text",
            None,
        ],
    )
    def test_what_is_no_page_is_refused(self, bench: MakeBench, page: Any) -> None:
        """Half a manifest, or another document, is an error and never a manifest."""
        with pytest.raises(BadAnswer):
            bench(answer(page)).fetch_manifest()

    @pytest.mark.parametrize(
        ("page", "requests"),
        [
            ({"nextCursor": "a"}, 2),
            ({"nextCursor": "a", "hasMore": True}, 2),
            ({"nextCursor": "a", "hasMore": False}, 1),
        ],
    )
    def test_a_cursor_alone_means_more(self, bench: MakeBench, page: dict[str, Any], requests: int) -> None:
        """``hasMore`` may be absent; where it says that there is no more, there is none."""
        run = bench(answer({"tools": [1], **page}), answer({"tools": [2]}))
        run.fetch_manifest()
        assert len(run.server.seen) == requests

    def test_a_cursor_that_comes_again_is_an_error(self, bench: MakeBench) -> None:
        """A gateway that leads in a circle is left, not followed."""
        run = bench(*(answer({"tools": [], "nextCursor": cursor}) for cursor in "abca"))
        with pytest.raises(BadAnswer, match="repeats a cursor"):
            run.fetch_manifest()
        assert len(run.server.seen) == 4

    def test_pages_have_an_end(self, bench: MakeBench) -> None:
        """More than 1,000 pages are a broken gateway."""
        run = bench(*(answer({"tools": [], "nextCursor": f"c{turn}"}) for turn in range(1000)))
        with pytest.raises(BadAnswer, match="more than 1000 pages"):
            run.fetch_manifest()
        assert len(run.server.seen) == 1000

    def test_the_size_limit_holds_for_all_pages_together(self, bench: MakeBench) -> None:
        """A manifest cannot grow past the limit page by page."""
        page = {"tools": ["x" * 400]}
        run = bench(*(answer({**page, "nextCursor": f"c{turn}"}) for turn in range(9)), max_response_bytes=1000)
        with pytest.raises(BadAnswer, match="max_response_bytes"):
            run.fetch_manifest()
        assert len(run.server.seen) == 3


class TestAnswers:
    """Bodies of every kind over the wire."""

    def test_gzip_is_understood(self, bench: MakeBench) -> None:
        """A compressed answer is the same answer."""
        body = gzip.compress(json.dumps(DONE).encode())
        assert bench(answer(body, headers={"Content-Encoding": "gzip"})).fetch_invocation() == DONE

    def test_chunks_are_understood(self, bench: MakeBench) -> None:
        """An answer without a length, in chunks, keeps the connection."""
        body = json.dumps(DONE).encode()
        chunks = b"%x\r\n%s\r\n%x\r\n%s\r\n0\r\n\r\n" % (5, body[:5], len(body) - 5, body[5:])
        run = bench(Step(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks))
        assert [run.fetch_invocation(), run.fetch_invocation()] == [DONE, DONE]
        assert {seen.connection for seen in run.server.seen} == {1}

    def test_a_gzip_bomb_is_cut_at_the_limit(self, bench: MakeBench) -> None:
        """The limit counts decoded bytes, and reading stops there."""
        bomb = gzip.compress(b'"' + b"a" * 200_000_000 + b'"', 1)
        run = bench(answer(bomb, headers={"Content-Encoding": "gzip"}), answer(DONE), max_response_bytes=1_000_000)
        with Peak() as peak, pytest.raises(BadAnswer, match="max_response_bytes"):
            run.fetch_invocation()
        assert peak.bytes < 20_000_000
        assert run.fetch_invocation() == DONE

    @pytest.mark.parametrize(
        ("limit", "fits"), [(len(json.dumps(DONE)), True), (len(json.dumps(DONE)) - 1, False)], ids=["at", "over"]
    )
    def test_the_limit_is_exact(self, bench: MakeBench, limit: int, fits: bool) -> None:
        """An answer of just the limit is taken; one byte more is not, and leaves no connection behind."""
        run = bench(answer(DONE), max_response_bytes=limit)
        if fits:
            assert run.fetch_invocation() == DONE
        else:
            with pytest.raises(BadAnswer):
                run.fetch_invocation()

    @pytest.mark.parametrize(
        ("step", "value"),
        [
            (Step(b"HTTP/1.1 204 No Content\r\n\r\n"), {"status": "ok"}),
            (answer(b""), {"status": "ok"}),
            (answer(b"  \n"), {"status": "ok"}),
            (answer(b"null"), None),
            (answer([1]), [1]),
            (answer(b"plain", content_type="text/plain"), "plain"),
            (answer(b"a;b\n1;2\n", content_type="text/csv"), "a;b\n1;2\n"),
            (answer(b'{"a": 1}', content_type="text/plain"), {"a": 1}),
            (answer({"id": 1}, 201), {"id": 1}),
        ],
    )
    def test_an_operation_answers_json_text_or_ok(self, bench: MakeBench, step: Step, value: Any) -> None:
        """Empty is ok, JSON is its value under any type, everything else is text."""
        run = bench(step)
        assert run.perform(GET) == value
        assert run.perform(GET) == value
        assert {seen.connection for seen in run.server.seen} == {1}

    @pytest.mark.parametrize(
        "step",
        [
            Step(b"HTTP/1.1 204 No Content\r\n\r\n"),
            answer(b""),
            answer(b'{"invocation_id": "i-'),
            answer(b"<!doctype html><title>Log in</title>", content_type="text/html"),
            answer([1]),
            answer(b"not json", content_type="text/plain"),
            answer(b"[" * 100_000),
        ],
    )
    def test_what_is_no_json_object_is_refused(self, bench: MakeBench, step: Step) -> None:
        """Where an object is due, anything else is an error in short, plain words, with the status where it helps."""
        run = bench(step)
        for ask in (run.invoke, run.fetch_invocation):
            with pytest.raises(BadAnswer) as caught:
                ask()
            assert len(str(caught.value)) <= 500
            assert "<" not in str(caught.value)
            assert "Expecting" not in str(caught.value)
            assert caught.value.status in {200, 204}
        assert len(run.server.seen) == 2

    def test_bytes_that_are_no_utf8_are_replaced_and_noted(self, bench: MakeBench) -> None:
        """A broken byte costs one character and a warning, not the answer."""
        run = bench(answer(b'{"status": "\xff", "x": "\xc3\xa4"}', content_type="application/json; charset=iso-8859-1"))
        assert run.fetch_invocation() == {"status": "\ufffd", "x": "ä"}
        assert [event.name for event in run.events] == ["mcp.warning"]
        assert "UTF-8" in str(run.events[0])


class TestRepeats:
    """What is tried again, and when."""

    @pytest.mark.parametrize("fault", [HANG_UP, RESET, Step(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{", "close")])
    def test_a_closed_connection_is_tried_again(self, bench: MakeBench, fault: Step) -> None:
        """GET and a POST with a key survive a connection that was closed, before the answer or within."""
        for ask in (Bench.fetch_manifest, Bench.invoke, Bench.fetch_invocation):
            run = bench(fault, answer({**DONE, **MANIFEST}))
            ask(run)
            assert [seen.headers["Idempotency-Key"] for seen in run.server.seen] == [
                run.server.seen[0].headers["Idempotency-Key"]
            ] * 2
            assert run.time.waits == [0.25]

    @pytest.mark.parametrize("status", [429, 502, 503, 504])
    def test_passing_statuses_are_tried_again(self, bench: MakeBench, status: int) -> None:
        """A gateway that is busy or away is asked again, with pauses that double."""
        for ask in (Bench.fetch_manifest, Bench.invoke, Bench.fetch_invocation):
            run = bench(answer({}, status), answer({}, status), answer({**DONE, **MANIFEST}))
            ask(run)
            assert run.time.waits == [0.25, 0.5]
            assert {seen.connection for seen in run.server.seen} == {1}

    @pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 409, 410, 413, 422, 500, 501])
    def test_lasting_statuses_are_not(self, bench: MakeBench, status: int) -> None:
        """What a repeat would not mend is asked once, whatever Retry-After says."""
        for ask in (Bench.fetch_manifest, Bench.invoke, Bench.fetch_invocation):
            run = bench(answer({"detail": "no"}, status, headers={"Retry-After": "0"}))
            with pytest.raises(GatewayError) as caught:
                ask(run)
            assert (caught.value.status, caught.value.retry_after) == (status, None)
            assert len(run.server.seen) == 1
            assert isinstance(caught.value, KeyRefused) == (status in {401, 403})

    @pytest.mark.parametrize("fault", [HANG_UP, RESET, answer({}, 503), answer({}, 429, headers={"Retry-After": "1"})])
    @pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
    def test_an_operation_that_may_have_run_is_not_repeated(self, bench: MakeBench, method: str, fault: Step) -> None:
        """The gateway sees an operation that is not idempotent once, with an idempotency key or without."""
        run = bench(fault, answer({}))
        with pytest.raises(GatewayError):
            run.perform(OperationRequest(method, "/jobs", headers={"Idempotency-Key": "k"}))
        assert len(run.server.seen) == 1
        assert run.time.waits == []

    @pytest.mark.parametrize("request_", [GET, OperationRequest("POST", "/jobs", idempotent=True)])
    def test_a_safe_operation_is_repeated(self, bench: MakeBench, request_: OperationRequest) -> None:
        """Reading, and an operation that does the same when it is sent twice, are repeated like the rest."""
        run = bench(HANG_UP, answer({}, 503), answer({"id": 1}))
        assert run.perform(request_) == {"id": 1}

    def test_the_attempts_have_an_end(self, bench: MakeBench) -> None:
        """After the fourth attempt the last error counts."""
        run = bench(answer({"detail": "deploying"}, 503))
        with pytest.raises(GatewayUnreachable, match="deploying") as caught:
            run.invoke()
        assert caught.value.status == 503
        assert len(run.server.seen) == 4

    @pytest.mark.parametrize(
        ("header", "waits"),
        [
            ("2", [2.25]),
            ("0", [0.25]),
            ("-5", [0.25]),
            ("abc", [0.25]),
            (None, [0.25]),
            ("Thu, 01 Jan 2026 00:00:05 GMT", [5.25]),
            ("Wed, 31 Dec 2025 23:00:00 GMT", [0.25]),
        ],
    )
    @pytest.mark.parametrize("ask", [Bench.fetch_manifest, Bench.invoke, Bench.fetch_invocation])
    def test_retry_after_is_kept(self, bench: MakeBench, ask: Any, header: str | None, waits: list[float]) -> None:
        """The next attempt is never earlier than told, and our own pause comes on top."""
        told = {"Retry-After": header} if header else {}
        date = {"Date": "Thu, 01 Jan 2026 00:00:00 GMT"}
        run = bench(answer({}, 429, headers={**date, **told}), answer({**DONE, **MANIFEST}))
        ask(run)
        assert run.time.waits == pytest.approx(waits)

    @pytest.mark.parametrize("ask", [Bench.fetch_manifest, Bench.invoke, Bench.fetch_invocation])
    def test_a_wait_beyond_the_deadline_is_refused_at_once(self, bench: MakeBench, ask: Any) -> None:
        """Where the wait does not fit the time left, the error comes at once and says when to try again."""
        run = bench(answer({"detail": "quota"}, 429, headers={"Retry-After": "3600"}), answer(DONE))
        with pytest.raises(GatewayError, match=r"quota\. Try again in 3600 s\.") as caught:
            ask(run)
        assert (caught.value.status, caught.value.retry_after) == (429, 3600)
        assert run.time.waits == []
        assert len(run.server.seen) == 1

    def test_cancelling_ends_the_wait(self, bench: MakeBench) -> None:
        """A cancelled call asks nothing more."""
        run = bench(answer({}, 429, headers={"Retry-After": "9"}), answer(DONE), time=Time(cancelled_at=1))
        with pytest.raises(Cancelled):
            run.invoke()
        assert len(run.server.seen) == 1

    @pytest.mark.parametrize("time", [Time(cancelled=True), Time(now=2000)])
    def test_nothing_is_sent_when_it_is_too_late(self, bench: MakeBench, time: Time) -> None:
        """A call that is cancelled or over before it begins sends nothing."""
        run = bench(answer(DONE), time=time)
        with pytest.raises((Cancelled, GatewayUnreachable)):
            run.invoke()
        assert run.server.seen == []

    def test_a_slow_answer_is_repeated_only_for_reading(self, bench: MakeBench) -> None:
        """A time-out says nothing of what the gateway did: GET is asked again, POST is not."""
        run = bench(SILENCE, answer(DONE), read_timeout=0.2)
        assert run.fetch_invocation() == DONE
        run = bench(SILENCE, answer(DONE), read_timeout=0.1)
        with pytest.raises(GatewayUnreachable, match="did not answer in time"):
            run.invoke(sync_timeout=0)
        assert len(run.server.seen) == 1

    def test_the_deadline_cuts_a_slow_answer(self, bench: MakeBench) -> None:
        """No time-out reaches past the deadline."""
        run = bench(SILENCE, read_timeout=20)
        with pytest.raises(GatewayUnreachable):
            run.invoke(sync_timeout=20, deadline=0.1)

    def test_the_read_timeout_is_longer_than_the_wait_asked_for(self, bench: MakeBench) -> None:
        """A gateway that uses the wait it was given is not cut off."""
        run = bench(replace(answer(DONE), delay=0.3), read_timeout=0.1)
        assert run.invoke(sync_timeout=1) == DONE
        with pytest.raises(GatewayUnreachable):
            run.invoke(sync_timeout=0)


class TestConnections:
    """Kept connections, and what happens when they are stale."""

    def test_one_connection_serves_many_calls(self, bench: MakeBench) -> None:
        """Answers are read to their end, so that the connection is used again."""
        run = bench(answer({**DONE, **MANIFEST}))
        for _ in range(5):
            run.fetch_manifest()
            run.invoke()
            run.fetch_invocation()
        assert {seen.connection for seen in run.server.seen} == {1}

    def test_errors_keep_the_connection_too(self, bench: MakeBench) -> None:
        """A refusal is read to its end as well."""
        run = bench(answer({"detail": "no"}, 422), answer(DONE))
        with pytest.raises(GatewayError):
            run.invoke()
        run.invoke()
        assert {seen.connection for seen in run.server.seen} == {1}

    def test_connections_that_the_gateway_closed_cost_nothing(self, bench: MakeBench) -> None:
        """A gateway that closes every idle connection without notice sees each call once."""
        run = bench(answer({**DONE, **MANIFEST}, after="close"))
        for _ in range(70):
            run.fetch_manifest()
            run.invoke()
            run.fetch_invocation()
        assert len(run.server.seen) == 210

    def test_an_unrepeatable_operation_never_meets_a_stale_connection(self, bench: MakeBench) -> None:
        """What cannot be repeated makes a connection of its own and asks to close it."""
        run = bench(answer({**DONE, **MANIFEST}))
        run.fetch_manifest()
        run.perform(POST)
        run.fetch_manifest()
        assert [seen.connection for seen in run.server.seen] == [1, 2, 1]
        assert run.server.seen[1].headers["Connection"] == "close"

    def test_a_repeat_after_a_broken_connection_makes_its_own(self, bench: MakeBench) -> None:
        """A pool of stale connections cannot use up the attempts."""
        run = bench(answer(DONE), HANG_UP, answer(DONE))
        run.invoke()
        run.invoke()
        assert [seen.headers["Connection"] for seen in run.server.seen] == [None, None, "close"]

    def test_threads_share_one_client(self, bench: MakeBench) -> None:
        """Many calls at once through one client each get their own answer."""
        run = bench(answer(DONE))
        with ThreadPoolExecutor(16) as pool:
            answers = list(pool.map(lambda turn: run.invoke(f"s{turn}"), range(200)))
        assert answers == [DONE] * 200
        assert sorted(run.server.targets) == sorted(f"{PREFIX}/actions/s{turn}:invoke" for turn in range(200))

    def test_clients_share_no_connection(self, bench: MakeBench) -> None:
        """What one client was answered on is never used for the key of another, on either kind of connection."""
        run = bench(answer(DONE))
        with ScriptedServer([answer(DONE)]) as server:
            clients = [GatewayClient(build_options(server.url), clock=run.time.clock) for _ in range(3)]
            for client in clients * 2:
                replace(run, client=client).invoke()
            for client in clients:
                replace(run, client=client).perform(POST)
                client.close()
        assert [seen.connection for seen in server.seen] == [1, 2, 3, 1, 2, 3, 4, 5, 6]

    @pytest.mark.parametrize("ask", [Bench.invoke, lambda run: run.perform(POST)])
    def test_closing_lets_a_call_end(self, bench: MakeBench, ask: Callable[[Bench], Any]) -> None:
        """A call that is under way when its client is closed gets its answer."""
        run = bench(Step(answer(DONE).data, delay=0.3))
        with ThreadPoolExecutor(1) as pool:
            future = pool.submit(ask, run)
            wait_until(lambda: bool(run.server.seen))
            run.client.close()
            assert future.result(10) == DONE


class TestRefusedKeys:
    """Who else hears of a key that the gateway refuses."""

    @pytest.mark.parametrize(("status", "refused"), [(401, 1), (403, 0), (404, 0), (503, 0), (200, 0)])
    def test_a_key_that_is_not_known_is_told(self, bench: MakeBench, status: int, refused: int) -> None:
        """Whatever was asked for, also on behalf of a trace, each 401 is told once, and nothing else is."""
        run = bench(answer({**DONE, **MANIFEST}, status))
        told: list[KeyRefused] = []
        client = GatewayClient(
            build_options(run.server.url), clock=run.time.clock, random=lambda: 0.0, on_refused=told.append
        )
        traced = client.traced({"traceparent": f"00-{'1' * 32}-{'1' * 16}-01"})
        for each in (client, traced):
            for ask in (Bench.fetch_manifest, Bench.invoke, Bench.fetch_invocation, lambda bench: bench.perform(POST)):
                with suppress(GatewayError):
                    ask(replace(run, client=each))
        assert [error.status for error in told] == [401] * 8 * refused
        client.close()


class Peak:
    """The most bytes that Python held at once inside the block, above what it held before."""

    def __enter__(self) -> Self:
        tracemalloc.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.bytes = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
