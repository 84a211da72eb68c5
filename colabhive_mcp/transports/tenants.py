"""API key → tenant: who is served, kept at hand by the time of last use, and who was refused.

A key gets a place only once the gateway has accepted it, so that no flood of bad ones takes anybody's. The lock is
never held while the gateway is asked. It knows nothing of HTTP.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from hashlib import sha256
from threading import Lock, Thread

from cachetools import LRUCache, TTLCache

from colabhive_mcp.bridge import Bridge, build_bridge
from colabhive_mcp.config import Settings
from colabhive_mcp.errors import GatewayError, KeyRefused
from colabhive_mcp.protocol.server import Server
from colabhive_mcp.protocol.toolbox import Verbosity
from colabhive_mcp.telemetry.events import (
    Event,
    KeyTurnedAway,
    ManifestFailed,
    OfTenant,
    Record,
    TenantAdded,
    TenantEvicted,
)
from colabhive_mcp.telemetry.logs import Redaction
from colabhive_mcp.transports.identity import build_server

PROOF_SECONDS = 5.0  # that a request waits for what the gateway says of its key
REFUSED_SECONDS = 30.0  # for which a refused key is remembered
REFUSED_MOST = 10_000
REFUSALS = (401, 403)
SHOWN_DIGITS = 16  # of a key's digest, in logs
OnRefused = Callable[[KeyRefused], None]


@dataclass(slots=True, eq=False)
class Tenant:
    """One key's server with its tools, and how many requests use it now.

    *verbosity* is what its legacy clients asked to be told: their requests have no session of their own.
    """

    digest: str
    bridge: Bridge
    server: Server
    record: Record
    redact: Redaction
    verbosity: Verbosity = field(default_factory=Verbosity)
    uses: int = 0
    proven: bool = False
    proof: Future[None] | None = None
    evicted: bool = False


Build = Callable[[str, str, OnRefused], Tenant]


def compute_digest(key: str) -> str:
    """What stands for *key* inside; its first digits do in logs."""
    return sha256(key.encode()).hexdigest()


class _Places(LRUCache[str, Tenant]):
    """Places for *capacity* tenants; who was asked for the longest time ago is pushed out, into *pushed*."""

    def __init__(self, capacity: int) -> None:
        super().__init__(capacity)
        self.pushed: list[Tenant] = []

    def popitem(self) -> tuple[str, Tenant]:
        digest, tenant = super().popitem()
        self.pushed.append(tenant)
        return digest, tenant


class Tenants:
    """The tenants of one relay, for any number of threads.

    *build* makes one of a key and its digest, and a callable to tell that the key was refused. *proving* takes a place
    for who asks the gateway about a key, or waits for that, and answers how it is given back; it may refuse.
    """

    def __init__(
        self,
        build: Build,
        *,
        capacity: int,
        proving: Callable[[], Callable[[], None]],
        record: Record,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._build = build
        self._proving = proving
        self._record = record
        self._lock = Lock()
        self._resident = _Places(capacity)
        self._candidates = _Places(capacity)
        self._refused: TTLCache[str, KeyRefused] = TTLCache(REFUSED_MOST, REFUSED_SECONDS, timer=clock)

    @property
    def resident(self) -> list[Tenant]:
        """Those who have a place."""
        with self._lock:
            return list(self._resident.values())

    def acquire(self, key: str) -> Tenant:
        """The tenant of *key*, in use until it is released.

        Raises KeyRefused where the gateway refuses it. While the gateway cannot be asked, the tenant has no place yet,
        and its calls say what is wrong.
        """
        digest = compute_digest(key)
        tenant = self._find(digest) or self._introduce(digest, key)
        try:
            if not tenant.proven:
                self._prove(tenant)
        except BaseException:
            self.release(tenant)
            raise
        return tenant

    def release(self, tenant: Tenant) -> None:
        """It is used by one less; one that has lost its place is closed by the last."""
        with self._lock:
            tenant.uses -= 1
            ended = tenant.evicted and not tenant.uses
        if ended:
            tenant.bridge.close()

    def close(self, reason: str) -> None:
        """Let everybody go, each after its requests."""
        with self._lock:
            tenants = [*self._resident.values(), *self._candidates.values()]
            self._resident.clear()
            self._candidates.clear()
        self._let_go(tenants, reason)

    def _find(self, digest: str) -> Tenant | None:
        with self._lock:
            refused = self._refused.get(digest)
            if refused is not None:
                raise KeyRefused(refused.message, status=refused.status)
            tenant = self._resident.get(digest) or self._candidates.get(digest)
            if tenant is not None:
                tenant.uses += 1
            return tenant

    def _introduce(self, digest: str, key: str) -> Tenant:
        """Somebody who may get a place; of two threads that bring the same key the first one's counts."""
        made = self._build(key, digest, lambda error: self._refuse(made, error))
        with self._lock:
            tenant = self._resident.get(digest) or self._candidates.setdefault(digest, made)
            tenant.uses += 1
            pushed = self._take_pushed(self._candidates)
        self._let_go(pushed if tenant is made else [*pushed, made], None)
        return tenant

    def _prove(self, tenant: Tenant) -> None:
        """Wait a while for what the gateway says of the key; a client's start must not wait for one that hangs."""
        with ExitStack() as waiting:
            waiting.callback(self._proving())
            try:
                self._find_proof(tenant).result(PROOF_SECONDS)
            except KeyRefused as error:
                raise KeyRefused(error.message, status=error.status) from None
            except (GatewayError, TimeoutError):
                return

    def _find_proof(self, tenant: Tenant) -> Future[None]:
        """The question that is open, or a new one, on a thread that nobody has to wait for."""
        with self._lock:
            if tenant.proof is not None:
                return tenant.proof
            give_back = self._proving()
            proof: Future[None] = Future()
            tenant.proof = proof
            tenant.uses += 1
        Thread(target=self._ask, args=(tenant, proof, give_back), name="proof", daemon=True).start()
        return proof

    def _ask(self, tenant: Tenant, proof: Future[None], give_back: Callable[[], None]) -> None:
        try:
            tenant.bridge.prove()
            self._promote(tenant)
            proof.set_result(None)
        except KeyRefused as error:
            self._refuse(tenant, error)
            proof.set_exception(error)
        except BaseException as error:  # whatever it is, it is for those who wait
            proof.set_exception(error)
        finally:
            give_back()
            with self._lock:
                tenant.proof = None
            self.release(tenant)

    def _promote(self, tenant: Tenant) -> None:
        """Give it a place, where another thread has not, and the key has not been refused meanwhile."""
        with self._lock:
            if tenant.proven or tenant.evicted or tenant.digest in self._refused:
                return
            self._candidates.pop(tenant.digest, None)
            tenant.proven = True
            self._resident[tenant.digest] = tenant
            count, pushed = len(self._resident), self._take_pushed(self._resident)
        self._tell(tenant, TenantAdded(count))
        self._let_go(pushed, "capacity")

    def _refuse(self, tenant: Tenant, error: KeyRefused) -> None:
        """The gateway does not take the key of *tenant*: it loses its place, and is not asked about for a while."""
        with self._lock:
            known = tenant.digest in self._refused
            self._refused[tenant.digest] = KeyRefused(error.message, status=error.status)
            places = [places for places in (self._resident, self._candidates) if places.get(tenant.digest) is tenant]
            for each in places:
                del each[tenant.digest]
        if not known:
            self._tell(tenant, KeyTurnedAway(error.status or 401))
        if places:
            self._let_go([tenant], "refused" if tenant.proven else None)

    def _let_go(self, tenants: Iterable[Tenant], reason: str | None) -> None:
        """Close those that no request uses; the others are closed by their last one. Of a candidate nothing is told."""
        for tenant in tenants:
            with self._lock:
                tenant.evicted = True
                idle, count = not tenant.uses, len(self._resident)
            if idle:
                tenant.bridge.close()
            if tenant.proven and reason is not None:
                self._tell(tenant, TenantEvicted(count, reason))

    def _tell(self, tenant: Tenant, event: Event) -> None:
        self._record(OfTenant(event, tenant.digest[:SHOWN_DIGITS]))

    @staticmethod
    def _take_pushed(places: _Places) -> list[Tenant]:
        pushed, places.pushed = places.pushed, []
        return pushed


def find_oldest_age(tenants: Iterable[Tenant]) -> float:
    """Seconds since the oldest copy of a manifest at hand was known to be the gateway's; 0 where there is none."""
    return max((tenant.bridge.offer.age for tenant in tenants), default=0.0)


def build_tenant(settings: Settings, key: str, digest: str, on_refused: OnRefused, *, record: Record) -> Tenant:
    """The tenant of *key* under the relay's *settings*. What it records names it by its digest."""

    def tell(event: Event) -> None:
        refused = isinstance(event, ManifestFailed) and event.status in REFUSALS
        if not refused:  # which is told once, as what it is, however many there are
            record(OfTenant(event, digest[:SHOWN_DIGITS]))

    bridge = build_bridge(replace(settings, api_key=key), tell, on_refused=on_refused)
    server = build_server(bridge, transport="http", record=tell, announces=settings.max_streams > 0)
    return Tenant(digest, bridge, server, tell, Redaction([key]))
