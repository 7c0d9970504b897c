"""Passwords and the rate limit, without a server."""

import asyncio
from collections.abc import Iterator

import bcrypt
import pytest

from exporter import web_guard
from exporter.web_guard import Passwords
from exporter.webconfig import RateLimit

FLOOD = 1000


def hashed(password: bytes) -> str:
    """A cheap one."""
    return bcrypt.hashpw(password, bcrypt.gensalt(4)).decode()


USERS = {"alice": hashed(b"right"), "bob": hashed(b"other")}


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[bytes]]:
    """The passwords that bcrypt was asked about."""
    asked: list[bytes] = []
    compare = web_guard._compare

    def noted(password: bytes, known: str) -> bool:
        asked.append(password)
        return compare(password, known)

    monkeypatch.setattr(web_guard, "_compare", noted)
    return asked


async def ask(passwords: Passwords, *credentials: tuple[str, bytes], users: dict[str, str] | None = None) -> list[bool]:
    """The outcomes, asked for at once."""
    return await asyncio.gather(*(passwords.match(users or USERS, each) for each in credentials))


def test_right_and_wrong_ones_are_compared_once(compared: list[bytes]) -> None:
    """Also when they are asked about at the same time."""

    async def run() -> None:
        passwords = Passwords()
        for _ in range(3):
            assert [True, False, False] * 2 == await ask(passwords, *[("alice", b"right"), ("alice", b"wrong"), ("eve", b"right")] * 2)

    asyncio.run(run())
    assert 3 == len(compared)


def test_a_user_that_there_is_not_costs_a_comparison_too(compared: list[bytes]) -> None:
    """With a hash that is in use, and even its password does not let him in."""
    assert [False] == asyncio.run(ask(Passwords(), ("eve", b"right")))
    assert compared == [b"right"]


def test_a_flood_of_wrong_ones_is_forgotten_and_the_right_one_is_not(compared: list[bytes]) -> None:
    """Bounded, and no password is kept."""

    async def run() -> Passwords:
        passwords = Passwords()
        await ask(passwords, ("alice", b"right"))
        await ask(passwords, *(("alice", str(number).encode()) for number in range(FLOOD)))
        assert [True] == await ask(passwords, ("alice", b"right"))
        return passwords

    passwords = asyncio.run(run())
    assert FLOOD + 1 == len(compared)
    assert sum(map(len, passwords._known.values())) <= 2 * web_guard._MOST_REMEMBERED
    assert "right" not in repr(vars(passwords))


def test_another_hash_is_another_question(compared: list[bytes]) -> None:
    """A password that was changed in the file lets nobody in that it let in before; one that was added lets in."""

    async def run() -> None:
        passwords = Passwords()
        assert [True, False] == await ask(passwords, ("alice", b"right"), ("eve", b"right"))
        assert [False] == await ask(passwords, ("alice", b"right"), users={"alice": hashed(b"new")})
        assert [True] == await ask(passwords, ("eve", b"right"), users={"eve": USERS["alice"]})

    asyncio.run(run())


@pytest.mark.parametrize("password", [b"x" * 100, b"\0", b"", "pässwörd".encode()])
def test_odd_passwords_are_passwords(password: bytes) -> None:
    """bcrypt looks at 72 bytes, as Go's and Apache's do."""
    users = {"alice": hashed(password[:72])}
    assert [True, False] == asyncio.run(ask(Passwords(), ("alice", password), ("alice", b"other"), users=users))


@pytest.mark.parametrize(
    ("header", "credentials"),
    [
        (b"Basic YWxpY2U6cmlnaHQ=", ("alice", b"right")),
        (b"basic YWxpY2U6YTpi", ("alice", b"a:b")),
        (b"Basic YWxpY2U=", None),
        (b"Bearer YWxpY2U6cmlnaHQ=", None),
        (b"Basic %%%", None),
        (b"Basic /zpyaWdodA==", None),
        (b"", None),
    ],
)
def test_the_header_of_basic_authentication(header: bytes, credentials: tuple[str, bytes] | None) -> None:
    """What is none lets nobody in."""
    assert credentials == web_guard._credentials({b"authorization": header})


def test_the_bucket_fills_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A burst, then one an interval; another limit begins anew."""
    bucket, now = web_guard._Bucket(), [100.0]
    monkeypatch.setattr("exporter.web_guard.time.monotonic", lambda: now[0])
    limit = RateLimit(interval="10s", burst=2)
    assert [True, True, False] == [bucket.take(limit) for _ in range(3)]
    now[0] += 10
    assert [True, False] == [bucket.take(limit) for _ in range(2)]
    now[0] += 1000
    assert [True, True, False] == [bucket.take(limit) for _ in range(3)]
    assert bucket.take(RateLimit(interval="10s", burst=3))
    assert all(bucket.take(RateLimit()) for _ in range(100))
