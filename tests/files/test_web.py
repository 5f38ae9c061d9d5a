"""What is asked of a web server is polite, patient and bounded; what it gives is the file, or an error that
says why not."""

from __future__ import annotations

import pickle
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from answermill.files import web
from answermill.files.remote import NotHere, Remote, as_path
from answermill.files.store import Changed, fetch, in_parallel, read_range, requests_to
from answermill.files.store_errors import Refused
from testing.web_server import Fault, WebServer, serving

CONTENT = bytes(range(256)) * 12_000  # about three megabytes


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[WebServer]:
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    monkeypatch.setattr(web, "PAUSE_S", 0.01)
    (tmp_path / "www").mkdir()
    (tmp_path / "www/file").write_bytes(CONTENT)
    with serving(tmp_path / "www") as server:
        yield server


def file(server: WebServer, name: str = "file") -> Remote:
    path = as_path(f"{server.url}/{name}")
    assert isinstance(path, Remote)
    return path


def test_a_file_is_fetched_by_one_request_and_kept(server: WebServer) -> None:
    path = file(server)
    assert fetch(path).read_bytes() == CONTENT
    assert [request.method for request in server.requests] == ["HEAD", "GET"]
    assert fetch(path).read_bytes() == CONTENT and server.count("GET") == 1, "the copy is the same version"
    assert {request.user_agent for request in server.requests} == {web.user_agent()}
    assert web.user_agent().startswith("AnswerMill/")


def test_a_range_is_just_these_bytes(server: WebServer) -> None:
    assert read_range(file(server), 1_000, 1_500) == CONTENT[1_000:1_500]
    assert server.sent == 500
    assert read_range(file(server), len(CONTENT) - 10, len(CONTENT) + 10) == CONTENT[-10:], (
        "fewer where the file ends"
    )


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_a_busy_server_is_asked_again(server: WebServer, status: int) -> None:
    server.fault = lambda request, n: Fault(status=status) if n < 3 else None
    assert read_range(file(server), 0, 10) == CONTENT[:10]
    assert server.count("GET") == 4


def test_retry_after_is_kept(server: WebServer) -> None:
    server.fault = lambda request, n: Fault(status=503, headers={"Retry-After": "1"}) if n < 1 else None
    began = time.monotonic()
    assert read_range(file(server), 0, 10) == CONTENT[:10]
    assert time.monotonic() - began >= 1


def test_a_server_that_stays_busy_is_an_error_after_some_tries(server: WebServer) -> None:
    server.fault = lambda request, n: Fault(status=503)
    with pytest.raises(OSError, match=r"/file: the server did not do it \(OSError: HTTP 503") as e:
        read_range(file(server), 0, 10)
    assert not isinstance(e.value, Refused) and server.count("GET") == web.TRIES


def test_a_body_that_breaks_off_goes_on_where_it_was(server: WebServer) -> None:
    server.fault = lambda request, n: Fault(cut=1_100_000) if request.method == "GET" and n < 2 else None
    assert fetch(file(server)).read_bytes() == CONTENT
    assert [request.range for request in server.requests if request.method == "GET"] == [
        None,
        (1_100_000, None),
        (2_200_000, None),
    ]
    assert server.sent == len(CONTENT), "no byte is sent twice"


def test_a_body_that_breaks_off_where_ranges_are_ignored_begins_again(server: WebServer) -> None:
    server.fault = lambda request, n: (
        Fault(cut=1_100_000 if n == 0 else None, whole=True) if request.method == "GET" else None
    )
    assert fetch(file(server)).read_bytes() == CONTENT


def test_a_body_that_always_breaks_off_is_an_error_after_some_tries(server: WebServer) -> None:
    server.fault = lambda request, n: Fault(cut=10)
    with pytest.raises(OSError, match="the server did not do it"):
        read_range(file(server), 0, 1_000)
    assert server.count("GET") == web.TRIES


def test_a_slow_server_is_asked_again(server: WebServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web, "TIMEOUT_S", 0.2)
    server.fault = lambda request, n: Fault(wait_s=1) if n < 1 else None
    assert read_range(file(server), 0, 10) == CONTENT[:10]
    assert server.count("GET") == 2


def test_a_file_that_changes_while_it_is_read_is_an_error(server: WebServer) -> None:
    server.fault = lambda request, n: (
        Fault(cut=1_000 if n == 0 else None, tag=f'"{n}"') if request.method == "GET" else None
    )
    with pytest.raises(OSError, match="was changed while it was read"):
        fetch(file(server))


def test_a_file_of_another_size_than_it_had_is_an_error(server: WebServer, tmp_path: Path) -> None:
    path = file(server).known()
    (tmp_path / "www/file").write_bytes(CONTENT[:-1])
    with pytest.raises(Changed, match="it had 3,072,000 when it was looked up"):
        fetch(path)
    assert not list((tmp_path / "temporary").rglob("file")), "nothing of it is kept"


@pytest.mark.parametrize(
    ("fault", "kind", "said"),
    [
        (Fault(status=404), FileNotFoundError, "no such file in the server .*HTTP 404"),
        (Fault(status=410), FileNotFoundError, "HTTP 410"),
        (Fault(status=403), PermissionError, "HTTP 403"),
        (Fault(status=416), Refused, "HTTP 416"),
        (Fault(whole=True), Refused, "ignores Range and answers 200 with the whole file"),
    ],
)
def test_what_would_be_refused_again_is_asked_for_once(
    server: WebServer, fault: Fault, kind: type[OSError], said: str
) -> None:
    server.fault = lambda request, n: fault
    with pytest.raises(kind, match=said):
        read_range(file(server), 5, 10)
    assert server.count("GET") == 1


def test_few_requests_are_open_at_a_time(server: WebServer) -> None:
    server.fault = lambda request, n: Fault(wait_s=0.05)
    path = file(server)
    content = in_parallel(lambda n: read_range(path, n, n + 1), range(20), requests_to(path))
    assert len(list(content)) == 20
    assert server.open_most == 4


def test_nothing_is_written_to_a_web_server(server: WebServer) -> None:
    with pytest.raises(NotHere, match="http:// is only read; give a folder, or a URL of s3"):
        file(server).check_bucket()
    with pytest.raises(OSError, match="a web server lists no folder"):
        list(file(server).iterdir())
    assert server.requests == []


def test_answers_that_are_not_read_to_their_end_keep_no_connection(server: WebServer) -> None:
    server.fault = lambda request, n: Fault(whole=True) if request.method == "GET" else None
    for _ in range(10):
        file(server).known()
        with pytest.raises(Refused):
            read_range(file(server), 5, 10)
        with pytest.raises(FileNotFoundError):
            file(server, "other").known()


@pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 406, 415, 501])
def test_a_server_that_refuses_head_is_asked_for_the_first_byte(server: WebServer, status: int) -> None:
    server.fault = lambda request, n: Fault(status=status) if request.method == "HEAD" else None
    path = file(server).known()
    assert path.stat().st_size == len(CONTENT) and server.sent == 1
    assert fetch(path).read_bytes() == CONTENT


@pytest.mark.parametrize("whole", [False, True])
def test_a_server_that_names_no_length_is_asked_for_the_first_byte(server: WebServer, whole: bool) -> None:
    server.fault = lambda request, n: Fault(no_length=True, whole=whole)
    path = file(server).known()
    assert path.stat().st_size == len(CONTENT)
    assert fetch(path).read_bytes() == CONTENT


def test_a_server_whose_head_names_no_bytes_is_asked_for_the_first(server: WebServer, tmp_path: Path) -> None:
    (tmp_path / "www/empty").touch()
    zero = Fault(status=200, headers={"Content-Length": "0"})
    server.fault = lambda request, n: zero if request.method == "HEAD" else None
    assert file(server).known().stat().st_size == len(CONTENT)
    assert file(server, "empty").known().stat().st_size == 0


def test_an_empty_file_of_such_a_server_is_empty(server: WebServer, tmp_path: Path) -> None:
    (tmp_path / "www/empty").touch()
    server.fault = lambda request, n: Fault(status=403) if request.method == "HEAD" else None
    assert file(server, "empty").known().stat().st_size == 0


@pytest.mark.parametrize(("status", "kind"), [(403, PermissionError), (405, Refused)])
def test_a_server_that_refuses_get_as_well_is_an_error(
    server: WebServer, status: int, kind: type[OSError]
) -> None:
    server.fault = lambda request, n: Fault(status=status)
    with pytest.raises(kind, match=f"HTTP {status}"):
        file(server).known()
    assert [request.method for request in server.requests] == ["HEAD", "GET"]


@pytest.mark.parametrize(
    "name",
    [
        "file?sign=a%2Fb//c/./d&e=%E4",
        ".//./file",
        "./x/../file",
        "file?to=http://a.org/b.warc.gz#top",
        "file?" + "long=" + "a" * 2_000,
    ],
)
def test_an_address_is_asked_for_as_it_is_written(server: WebServer, name: str, tmp_path: Path) -> None:
    (tmp_path / "www/x").mkdir()
    path = file(server, name)
    assert fetch(path.known()).read_bytes() == CONTENT
    assert {request.path for request in server.requests} == {"/" + name.partition("#")[0]}
    assert (str(path), path.name) == (f"{server.url}/{name}", "file")
    assert pickle.loads(pickle.dumps(path)) == path == path.resolve() != file(server, "file")


def test_a_name_below_an_address_is_joined_as_it_is_written(server: WebServer) -> None:
    for root in ("web/2020id_", "web/2020id_/"):
        path = file(server, root) / "http://a.org//b.warc.gz"
        assert str(path) == f"{server.url}/web/2020id_/http://a.org//b.warc.gz"


def test_a_redirect_is_followed(server: WebServer) -> None:
    server.fault = lambda request, n: (
        Fault(status=302, headers={"Location": "file?b"}) if request.path.endswith("?a") else None
    )
    assert fetch(file(server, "file?a").known()).read_bytes() == CONTENT
