"""Requests that nobody should send: the attacks of the campaign on the explorer, drawn from a seeded generator.

An attack is what goes over the wire. `@build@@@@@@` and the like stand for ids that are only known when it is sent;
they have the length of an id.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Literal

__all__ = ["NO_ID", "Attack", "draw", "flood", "request"]

Reading = Literal["all", "little", "nothing", "until cut"]

NO_ID = b"000000000000"
_HOST = b"@host"
_GET = (
    *(
        "/",
        "/capacity",
        "/build",
        "/ask",
        "/grafts",
        "/runs",
        "/theorems",
        "/favicon.ico",
        "/static/x/lib.js",
        "/api/bounds",
    ),
    *("/api/bounds/all", "/api/plan", "/api/theorems", "/api/shipped", "/api/constructions", "/api/builds"),
    *("/api/builds/@build@@@@@@", "/api/builds/@build@@@@@@/zip", "/api/models", "/api/models/@model@@@@@@"),
    *("/api/models/@model@@@@@@/complete", "/api/models/@build@@@@@@/complete", "/api/runs", "/api/runs/@run@@@@@@@@"),
    *("/api/runs/@run@@@@@@@@/fit", "/api/entries/@entry@@@@@@", "/report/@report@@@@@", "/api/grafts"),
    *("/api/grafts/@model@@@@@@",),
)
_POST = (
    *("/api/check", "/api/builds", "/api/models/@model@@@@@@/ask", "/api/models/@build@@@@@@/ask", "/api/report"),
    *(
        "/api/grafts/@model@@@@@@/speak",
        "/api/uploads?name=a.csv",
        "/api/builds/@build@@@@@@/cancel",
        "/api/warm",
        "/api/warm?builder=1",
    ),
)
_NAMES = (
    *("heads", "d_model", "d_head", "context", "vocab", "layers", "d_mlp", "axis", "dtype", "shared", "kruskal"),
    *("last_tokens", "facts", "max_params", "prefix", "position", "x", "y", "law", "where", "name", "builder"),
)
_VALUES = (
    *("--5", "-", "+5", "0", "-1", "1", "7", "64", "999999999999999", "9" * 400, "1e9", "1.5", " 3 ", "\u0663"),
    *("\u00b2", "", "x", "heads", "layers", "d_mlp", "float64", "float8", "bfloat16", "nan", "%00", "%ff", "%ZZ"),
    *("%ed%a0%80", "..%2f..", "<script>", "n_heads", "capacity", "n_heads>", "n_heads=1", "a=b=c", "auto", "linear"),
    *("%F0%9F%92%A9", "a" * 3000, "[", "http://[::1", "None", "true", "1999", "9001", "100000", "%0d%0aSet-Cookie:x"),
)
_HEADERS: dict[str, tuple[str, ...]] = {
    "Origin": ("http://[::1", "null", "http://", "://", "http://[", "http://127.0.0.1:99999", "\xff", "http://\x80"),
    "Host": ("", "[::1", "evil", "127.0.0.1", "127.0.0.1:abc", "@host@host", "localhost", "a b", "\xff"),
    "Range": ("bytes=0-", "bytes=9-1", "bytes=-", "bytes=a-b", "bytes=0-0,1-1,2-2", "x", "bytes=" + "0-1," * 500),
    "If-Range": ("x", '"', "Mon, 99 Foo"),
    "If-None-Match": ("*", '"', "\xfe"),
    "Accept-Encoding": ("gzip", "gzip;q=nan", "\xff", "," * 1000, "identity;q=0"),
    "Content-Type": ("multipart/form-data", "multipart/form-data; boundary=" + "x" * 500, "text/plain; charset=utf-99"),
    "Content-Length": ("-1", "x", "1e3", "99999999999999999999", "0x10", "", "+3", "3, 4"),
    "Transfer-Encoding": ("chunked", "gzip", "chunked, chunked", "\xff", "identity"),
    "Connection": ("close", "upgrade", "keep-alive, close", "\xff", "x" * 1000),
    "Upgrade": ("websocket", "h2c", "\xff"),
    "Expect": ("100-continue", "200-ok", "\xff"),
    "Sec-Fetch-Site": ("cross-site", "\xff", "none"),
    "X-Rote-Page": ("1", ""),
    "Cookie": ("a=" + "b" * 5000, "\xff", "=;=;"),
    "X": ("y" * 100_000, "\t", "a" * 70_000),
}
_ODD: tuple[Any, ...] = (
    *(None, True, 0, -1, 1.5, 10**16, 10**400, 1e308, "", "x", "\ud800", "\0", "a" * 3000, [], {}, [[]], ["\ud800"]),
    *(["a", 1], {"a": 1}, "elements", "auto", "mlp_fit", "dana2025_cor1", "float16", "words", "first", "@upload@@@@@"),
    *(["symbol"], ["symbol", "symbol"], ["nothing"], {"refine": True}, {"epsilon": 10**400}, {"starts": -1}, "llama"),
)
_FIELDS = (
    *("shipped", "upload", "target", "columns", "tokens", "on_conflict", "weight", "with", "options", "dtype", "arch"),
    *("seed", "heads", "d_model", "d_head", "d_mlp", "partial", "words", "top", "ids"),
)
_PARTS = ("..", "%2e%2e", "..%2f", "%00", "etc", "passwd", "static", "api", "builds", "@build@@@@@@", "%ff", "~", "*")
_SLOW = (
    *("/api/bounds/all?layers=1999&d_mlp=9001&axis=layers", "/api/models/@model@@@@@@", "/api/runs/@run@@@@@@@@"),
    *("/api/runs/@run@@@@@@@@/fit?x=n_heads&y=capacity", "/api/plan?facts=1000000&vocab=300000"),
)


@dataclass(frozen=True)
class Attack:
    """What is sent, in pieces with a pause after each, and how the answer is read; `times` at once."""

    group: str
    what: str
    pieces: tuple[bytes, ...]
    pause: float = 0.0
    reading: Reading = "all"
    times: int = 1
    sound: bool = False
    """Nothing is wrong with it, so it must be answered."""


def request(method: str, path: str, body: bytes = b"", headers: Sequence[tuple[str, str]] = ()) -> bytes:
    """A request as it should be, unless a header says otherwise."""
    given = {name.lower() for name, _ in headers}
    lines = [f"{method} {path} HTTP/1.1".encode("latin-1", "replace")]
    if "host" not in given:
        lines.append(b"Host: " + _HOST)
    if (body or method == "POST") and not given & {"content-length", "transfer-encoding"}:
        lines.append(b"Content-Length: %d" % len(body))
    lines += [f"{name}: {value}".encode("latin-1", "replace") for name, value in headers]
    return b"\r\n".join([*lines, b"", body])


def _malformed(rng: Random) -> Attack:
    """What is hardly HTTP."""
    whole = request("GET", rng.choice(_GET)) if rng.random() < 0.6 else request("POST", rng.choice(_POST), b"{}")
    chosen = rng.randrange(12)
    if chosen < 4:
        spoiled = bytearray(whole)
        for _ in range(rng.randrange(1, 8)):
            spoiled[rng.randrange(len(spoiled))] = rng.randrange(256)
        return _once("malformed HTTP", bytes(spoiled))
    if chosen == 4:
        return _once("malformed HTTP", rng.randbytes(rng.randrange(1, 2000)))
    if chosen == 5:
        return _once("malformed HTTP", b"\x16\x03\x01" + rng.randbytes(300))
    if chosen == 6:
        return _once("malformed HTTP", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + rng.randbytes(50))
    if chosen == 7:
        many = b"".join(b"%d: %d\r\n" % (i, i) for i in range(rng.randrange(1, 20_000)))
        return _once("malformed HTTP", whole[:-2] + many + b"\r\n")
    if chosen == 8:
        return _once("malformed HTTP", whole * rng.randrange(2, 60))
    if chosen == 9:
        start = request("POST", rng.choice(_POST), headers=[("Transfer-Encoding", "chunked")])
        return _once("malformed HTTP", start + b"1\r\nx\r\n" * rng.randrange(1, 60_000) + b"0\r\n\r\n")
    if chosen == 10:
        first = rng.choice((b"GET", b"", b"G" * 70_000, b"GET /\xff", b"GET / HTTP/9.9", b"GET  /  HTTP/1.1", b"\0"))
        return _once("malformed HTTP", first + b"\r\nHost: " + _HOST + b"\r\n\r\n")
    return _once("malformed HTTP", whole.replace(b"\r\n", rng.choice((b"\n", b"\r", b"\r\n\r\n", b"\r\n "))))


def _method(rng: Random) -> Attack:
    names = ("PUT", "PATCH", "TRACE", "OPTIONS", "CONNECT", "HEAD", "DELETE", "POST", "GET", "get", "X" * 300)
    return _once("wrong methods", request(rng.choice(names), rng.choice((*_GET, *_POST)), rng.choice((b"", b"{}"))))


def _query(rng: Random) -> Attack:
    pairs = [f"{rng.choice(_NAMES)}={rng.choice(_VALUES)}" for _ in range(rng.randrange(0, 6))]
    line = rng.choice(("&", "&&", ";")).join(pairs).encode("utf-8").decode("latin-1").replace(" ", "%20")
    sent = request("GET", f"{rng.choice(_GET)}?{line}", headers=[("X-Rote-Page", "1")] if rng.random() < 0.2 else ())
    return _once("absurd queries", sent)


def _header(rng: Random) -> Attack:
    names = [rng.choice(list(_HEADERS)) for _ in range(rng.randrange(1, 4))]
    headers = [(name, rng.choice(_HEADERS[name])) for name in names]
    if rng.random() < 0.5:
        return _once("header nonsense", request("GET", rng.choice(_GET), headers=headers))
    return _once("header nonsense", request("POST", rng.choice(_POST), b'{"shipped": "elements"}', headers))


def _body(rng: Random) -> Attack:
    chosen = rng.randrange(8)
    fields = {rng.choice(_FIELDS): rng.choice(_ODD) for _ in range(rng.randrange(0, 5))}
    content = json.dumps(fields).encode()
    if chosen == 0:
        content = rng.choice((b"", b"[]", b"null", b"[" * 100_000, b'{"a":' * 50_000, b"{", b"\xff\xfe", b"1" * 5000))
    elif chosen == 1:
        content = json.dumps(fields).encode(rng.choice(("utf-16", "utf-32", "utf-8-sig")))
    elif chosen == 2:
        content = content[:-1] + b', "x": ' + rng.choice((b"NaN}", b"Infinity}", b"1e999}", b'"\xff"}', b'"\x00"}'))
    elif chosen == 3:
        content = b'{"a": "' + b"x" * rng.randrange(200_000, 600_000) + b'"}'
    return _once("bodies", request("POST", rng.choice(_POST[:5]), content))


def _path(rng: Random) -> Attack:
    path = "/".join(["", *(rng.choice(_PARTS) for _ in range(rng.randrange(1, 7)))])
    if rng.random() < 0.3:
        path = rng.choice((*_GET, *_POST)) + rng.choice(("/", "//", "/..", "%2f", "#", "?", ";a", "%", "[", "%0a"))
    return _once("paths", request(rng.choice(("GET", "GET", "POST", "DELETE")), path))


def _table(rng: Random) -> bytes:
    """A file that is no table, or none that anybody would want."""
    width = rng.choice((1, 2, 3, 3, 3, 50, 999, 1000, 1001, 60_000))
    names = [f"c{i}" for i in range(width)]
    cells = ["a", "b", "", '"', "<pad>", "\u202e", "\ufeff", "x" * 200, "1e9", "\r", "a b c", "=1+1", "'", "\u0000"]
    rows = [names, *([rng.choice(cells) for _ in names] for _ in range(rng.randrange(0, 5)))]
    text = rng.choice(("\n", "\r\n", "\r")).join(rng.choice((",", ",", "\t")).join(row) for row in rows)
    content = text.encode(rng.choice(("utf-8", "utf-8", "utf-16", "utf-8-sig")))
    return content if rng.random() < 0.8 else content[: rng.randrange(len(content) + 1)] + rng.randbytes(20)


def _upload(rng: Random) -> Attack:
    ends = ("csv", "csv", "csv", "tsv", "jsonl", "safetensors", "CSV", "csv.gz", "exe", "", "npz", "parquet")
    name = rng.choice(("a", "..%2f..%2fa", "%00", "%ff", "a" * 400, "", ".", "%f0%9f%92%a9", "<b>", "a%0ab")) + "."
    chosen = rng.randrange(10)
    content = _table(rng)
    if chosen == 0:
        lines = (json.dumps({f"k{i}": rng.choice(_ODD) for i in range(rng.choice((1, 3, 2000)))}) for _ in range(3))
        content = "\n".join(lines).encode()
    elif chosen == 1:
        content = rng.choice((0, 5, 2**40, 2**63, 10)).to_bytes(8, "little") + rng.randbytes(rng.randrange(60))
    elif chosen == 2:
        content = b'{"__metadata__": {}, "x": {"dtype": "F64", "shape": [1000000000], "data_offsets": [0, 8]}}'
        content = len(content).to_bytes(8, "little") + content + bytes(8)
    elif chosen == 3 and rng.random() < 0.1:
        content = rng.choice((b"a", b"a,", b"\n", b'"')) * 21_000_000
    return _once("uploads", request("POST", f"/api/uploads?name={name}{rng.choice(ends)}", content))


def _use(rng: Random) -> Attack:
    """What a page asks, in no sensible order."""
    facts = "a,b,c\n" + "".join(f"x{i},y{rng.randrange(3)},{rng.randrange(5)}\n" for i in range(rng.randrange(1, 30)))
    source = rng.choice(({"shipped": "elements"}, {"upload": "@upload@@@@@"}))
    with_ = {"with": rng.choice(("dana2025_cor1", "mlp_fit", "auto"))}
    sent = (
        request("POST", "/api/uploads?name=facts.csv", facts.encode()),
        request("POST", "/api/check", json.dumps(source).encode()),
        request("POST", "/api/builds", json.dumps({**source, **with_, "seed": rng.randrange(9)}).encode()),
        request("POST", "/api/builds/@build@@@@@@/cancel"),
        request("DELETE", "/api/builds/@build@@@@@@"),
        request("GET", "/api/builds/@build@@@@@@/zip"),
        request("GET", "/api/builds"),
        request("GET", "/api/models"),
        request("POST", "/api/models/@model@@@@@@/ask", b'{"words": ["Fe", "name"]}'),
        request("POST", "/api/report", b'{"ids": ["@run@@@@@@@@"]}'),
        request("GET", "/report/@report@@@@@"),
        request("GET", "/api/runs/@run@@@@@@@@"),
    )
    return _once("pages' own questions", rng.choice(sent), sound=True)


def _slow(rng: Random) -> Attack:
    """A request that never gets whole; it has to be cut off."""
    whole = rng.choice((request("GET", "/capacity"), request("POST", "/api/uploads?name=a.csv", b"a,b\n1,2\n" * 99)))
    kept = rng.randrange(1, len(whole) - 1)
    if rng.random() < 0.5:
        return _attack("slow senders", (whole[:kept],), reading="until cut")
    start = min(kept, len(whole) - 60)
    drops = tuple(bytes([one]) for one in whole[max(1, start) : max(1, start) + 59])
    return _attack("slow senders", (whole[: max(1, start)], *drops), pause=0.4, reading="until cut")


def _gone(rng: Random) -> Attack:
    """A client that leaves before the answer, or does not fetch it."""
    if rng.random() < 0.3:
        lazy = request("GET", "/static/x/plotly.min.js") * rng.randrange(1, 20)
        return _attack("gone clients", (lazy,), reading="little", pause=rng.random())
    body = json.dumps({"shipped": rng.choice(("elements", "countries"))}).encode()
    sent = rng.choice((request("GET", rng.choice(_SLOW)), request("POST", "/api/check", body)))
    return _attack("gone clients", (sent,), reading="nothing", pause=rng.random())


def flood(rng: Random) -> Attack:
    """The same, many times at once."""
    wide = ",".join(f"c{i}" for i in range(60_000)) + "\n" + ",".join(str(i) for i in range(60_000)) + "\n"
    chosen = rng.randrange(6)
    times = rng.randrange(30, 60)
    if chosen == 0:
        return _attack("floods", (request("POST", "/api/uploads?name=wide.csv", wide.encode()),), times=times)
    if chosen == 1:
        long = "a,b,c\n" + "".join(f"{i},{i % 7},{i % 11}\n" for i in range(20_000))
        return _attack("floods", (request("POST", "/api/uploads?name=long.csv", long.encode()),), times=times)
    if chosen == 2:
        return _attack("floods", (request("GET", rng.choice(_SLOW)),), times=times)
    if chosen == 3:
        near = request("POST", "/api/uploads?name=a.csv", b"a,b\n" + b"1,2\n" * 500_000)
        return _attack("floods", (near,), times=times // 3)
    if chosen == 4:
        deep = request("GET", "/api/bounds/all?layers=1999&d_mlp=9001")
        return _attack("floods", (deep,), reading="nothing", times=99)
    return _attack("floods", (b"GET /cap",), reading="nothing", pause=1.0, times=150)


def _once(group: str, sent: bytes, *, sound: bool = False) -> Attack:
    return _attack(group, (sent,), sound=sound)


def _attack(group: str, pieces: tuple[bytes, ...], **more: Any) -> Attack:
    start = b"".join(pieces)
    return Attack(group, f"{group}, {len(start):,} bytes {start[:300]!r}", pieces, **more)


_SORTS: dict[Callable[[Random], Attack], int] = {
    _malformed: 14,
    _method: 8,
    _query: 18,
    _header: 14,
    _body: 12,
    _path: 10,
    _upload: 10,
    _use: 10,
    _slow: 2,
    _gone: 2,
}


def draw(rng: Random) -> Attack:
    """The next attack."""
    return rng.choices(list(_SORTS), list(_SORTS.values()))[0](rng)
