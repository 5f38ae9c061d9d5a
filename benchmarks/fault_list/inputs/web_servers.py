"""Faults of web servers: the files are read all the same where a browser would read them, by the addresses as
they are written, and refused with the server's answer where it gives none."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from benchmarks.fault_list.fault import Ended, Fault, How, Place, in_process, nothing, same_documents
from testing import web_server
from testing.web_server import Request, serving

WEB = "web.warc.gz"
ADDRESSES = (
    f"a//b/{WEB}",
    f"./a/./{WEB}",
    f"a/../{WEB}",
    f"2020id_/http://a.org//{WEB}",
    f"{WEB}?path=//a/./b",
    f"{WEB}?sign=a%2Fb%3D&x=%E4",
    f"a%20b/{WEB}",
)
"""Addresses of the file on a server that knows no other."""
Answer = Callable[[Request, int], web_server.Fault | None]


def served(answer: Answer, only: str = "") -> How:
    """Run a command while a server at URL serves the place's folder, with the answer's fault for the n-th
    request. `only`: the one address at which it has web.warc.gz."""

    def run(place: Place, words: Sequence[str]) -> Ended:
        with serving(place.folder) as server:
            server.fault = answer
            if only:
                path = place.folder / only.partition("?")[0]
                server.fault = lambda request, n: (
                    answer(request, n) if request.path == f"/{only}" else web_server.Fault(status=404)
                )
                path.parent.mkdir(parents=True, exist_ok=True)
                if not path.exists():
                    path.write_bytes((place.folder / WEB).read_bytes())
            return in_process(place, [word.replace("URL", server.url) for word in words])

    return run


def sound(request: Request, n: int) -> None:
    """No fault."""


def to_head(status: int) -> Answer:
    """This status for each HEAD, and no bytes."""
    fault = web_server.Fault(status=status, headers={"Content-Length": "0"})
    return lambda request, n: fault if request.method == "HEAD" else None


def always(fault: web_server.Fault) -> Answer:
    return lambda request, n: fault


def cut_once(request: Request, n: int) -> web_server.Fault | None:
    """A first body that breaks off."""
    return web_server.Fault(cut=1_000) if request.method == "GET" and not n else None


def changing(request: Request, n: int) -> web_server.Fault | None:
    """Another version of the file for each request, of which the first breaks off."""
    return web_server.Fault(tag=f'"{n}"', cut=None if n else 1_000) if request.method == "GET" else None


def redirect(request: Request, n: int) -> web_server.Fault | None:
    """Another place for the file."""
    if request.path.startswith("/old"):
        return web_server.Fault(status=302, headers={"Location": f"/{WEB}"})
    return None


def _of(name: str, answer: Answer, address: str = WEB, only: str = "") -> Fault:
    """A fault whose files are read all the same."""
    command = f"ingest JOB --out WORK/new --set ingest.input='[\"URL/{address}\"]'"
    return Fault(
        f"server: {name}",
        nothing,
        command,
        0,
        "60 documents",
        right=same_documents,
        how=served(answer, only),
    )


def _refused(name: str, answer: Answer, code: int, says: str, address: str = WEB) -> Fault:
    return _of(name, answer, address)._replace(code=code, says=says)


FAULTS = (
    *(
        _of(f"HEAD is answered by {status}", to_head(status))
        for status in (200, 400, 401, 403, 404, 405, 406, 501)
    ),
    _of("no length", always(web_server.Fault(no_length=True))),
    _of("no length, no ranges", always(web_server.Fault(no_length=True, whole=True))),
    *(_of(f"the address {address}", sound, address, only=address) for address in ADDRESSES),
    _of("an address with a fragment", sound, f"{WEB}#top", only=WEB),
    _of("a redirect", redirect, "old.warc.gz"),
    _of("a body that breaks off", cut_once),
    _of("a file that changes while it is read", changing),
    _refused("all is answered by 403", always(web_server.Fault(status=403)), 74, "HTTP 403"),
    _refused("all is answered by 401", always(web_server.Fault(status=401)), 74, "HTTP 401"),
    _refused("all is answered by 405", always(web_server.Fault(status=405)), 74, "HTTP 405"),
    _refused("a file that is not there", sound, 66, "none.warc.gz", "none.warc.gz"),
    _refused("a folder of files", sound, 66, "no such file", "pages/"),
)
